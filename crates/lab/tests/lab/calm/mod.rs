//! Tests that mostly wait for a server with little work, and have no deadline that a busy machine could miss:
//! `script/test` runs several of these at once.

mod connect;
mod follow;
mod host;
mod metadata_locks;
mod option_files;
mod plan_now;
mod proxies;
mod servers;
mod set_up;
mod sources;
mod states;
mod variables;
mod wait_graph;
