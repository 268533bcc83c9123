"""Make the embedded sample: its tasks in ten languages and its encoder, all from one seeded generator."""
