//! The program from outside: what it prints where, and its exit codes. One file per subcommand.

mod cache;
mod calm;
mod connections;
mod doctor;
mod explain;
mod fleet;
mod fleet_doctor;
mod fleet_top;
mod help;
mod history;
