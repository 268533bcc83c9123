"""Read data, from files of every format and the hub, into rows that know where they came from."""
