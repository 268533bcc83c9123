"""Import results that other programs measured, as a study that can be reported, judged and exported."""
