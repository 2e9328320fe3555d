//! What mostly waits, for a server that hardly works, and holds nobody to a time that a machine with other work could not
//! keep: `script/test` runs several of these at once.

mod connect;
mod follow;
mod host;
mod option_files;
mod servers;
mod sources;
mod states;
mod variables;
mod wait_graph;
