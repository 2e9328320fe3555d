//! spindoctor: finds where a running MySQL or MariaDB server loses time.
mod chart;
mod exit;
mod report;
mod terminal;
fn main() {}
