//! What somebody captured of a server: `SHOW ENGINE INNODB STATUS` out of a ticket, a process list, an error log, stacks by gdb.
//!
//! Texts in, a window out: the same [`spindoctor_model::window::Window`] as a live server gives, so that the rules run on it
//! unchanged. What a text is, its content says, never its name alone.
//! Pure: no I/O, no clock. Everything that comes in is hostile until parsed.
//!
//! 1. [`Text`] unpacks and decodes a file.
//! 2. [`recognise()`] undoes what pasting did (`plain`), cuts the text into documents and reads each ([`Part`]).
//! 3. [`collections()`] says which documents belong to one moment of one server, and [`window()`] makes the window of each.

#![allow(unreachable_pub, reason = "what others may use, this file says")]

mod advisors;
mod aliases;
mod amounts;
mod appliers;
mod atop;
mod bare_frames;
mod beside;
mod blanks;
mod boxes;
mod busy_threads;
mod client_errors;
mod cloudwatch;
mod cluster_status;
mod collections;
mod collectors;
mod container_states;
mod container_status;
mod container_stops;
mod containers;
mod counted;
mod cpu_counters;
mod cpu_shares;
mod crashed_tables;
mod cut_status;
#[cfg(test)]
mod damage;
mod deadlock_rows;
mod deleted_files;
mod denials;
mod documents;
mod double_spaced;
mod dump_slow;
mod error_log;
mod events;
mod exporter;
mod expressions;
mod group_members;
mod headless;
mod headless_processes;
mod heads;
mod heartbeat;
mod hints;
mod indented;
mod innodb_locks;
mod innotop;
mod instruments;
mod intervals;
mod iotop;
mod json;
mod kernel_log;
mod kernel_tasks;
mod kernel_waits;
mod kill_log;
mod labelled;
mod latches;
mod latency_bars;
mod load_tests;
mod localised;
mod lock_owners;
mod locks;
mod log_lines;
mod log_replication;
mod log_troubles;
mod logged_json;
mod logged_waits;
mod lost_connections;
mod markup;
mod memory_left;
mod memory_limits;
mod memory_nodes;
mod named;
mod named_rows;
mod nameless_disks;
mod numbered_blocks;
mod one_line;
mod open_tables;
mod option_remarks;
mod other_programs;
mod own_checks;
mod packets;
pub mod part;
#[cfg(test)]
mod pasted;
#[cfg(test)]
mod pasted_lists;
mod peers;
mod perf_lines;
mod plain;
mod plan;
mod plan_json;
mod plan_rows;
mod pool_and_memory;
mod pressure;
mod printed;
mod process_files;
mod profile_rows;
mod prose;
mod proxy_log;
mod python;
mod quoted_lines;
mod rds_events;
mod recognise;
mod replica_messages;
mod reshaped;
mod rows;
mod safe_log;
mod sampled;
mod screens;
mod secrets;
mod semaphore_rows;
mod server_status;
mod server_version;
mod sessions;
#[cfg(test)]
mod shared_fixtures;
mod shell_notices;
mod shutdowns;
mod slow_log;
mod slow_marks;
mod slow_rows;
mod socket_counts;
mod spaced;
mod split_columns;
pub mod stacks;
mod start_errors;
mod statement_report;
mod status;
mod status_page;
mod stretch;
mod summaries;
mod summary;
mod sys_session;
mod sysstat;
mod sysstat_io;
mod system;
mod systemd_log;
mod table_kind;
mod tables;
mod terminal;
mod text;
mod thread_pool;
mod threads;
mod tool_errors;
mod tool_tables;
mod topology;
mod traced_calls;
mod transactions;
mod tuner;
mod unfinished_start;
mod uniq;
mod unit_status;
mod unix_disks;
mod unknown_errors;
mod vertical_line;
mod vote_languages;
mod votes;
mod window;
mod wrapped_lines;
mod wrapped_rows;
mod xml;
mod yaml_rows;

use spindoctor_model::clock;

pub use collections::{Collection, collections};
pub use hints::say_hints;
pub use part::{Kind, Moment, Part, Said};
pub use recognise::recognise;
pub use rows::{Form, Tables, form};
pub use text::{LONGEST_BYTES, Text};
pub use threads::threads;
pub use window::{NOT_GIVEN, WHAT_WAS_GIVEN, window};
