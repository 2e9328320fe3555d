//! spindoctor: finds where a running MySQL or MariaDB server loses time.

fn main() {}
