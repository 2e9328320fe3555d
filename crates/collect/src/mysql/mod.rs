//! The server's side: how to connect, what to ask, how to read the answers.

pub mod analyze_json;
pub mod answer;
mod dsn;
pub mod environment;
pub mod error;
#[cfg(test)]
pub(crate) mod fixture;
pub mod global_status;
pub mod global_variables;
pub mod innodb_locks;
pub mod innodb_metrics;
pub mod innodb_status;
pub mod innodb_trx;
mod login;
pub mod login_path;
pub mod logins;
pub mod metadata_lock_info;
pub mod one_server;
pub mod optimizer_trace;
pub mod option_file;
pub mod origins;
pub mod perf_schema_accounts;
pub mod perf_schema_applier_errors;
pub mod perf_schema_data_lock_waits;
pub mod perf_schema_errors;
pub mod perf_schema_file_summary;
pub mod perf_schema_group_members;
pub mod perf_schema_last_statements;
pub mod perf_schema_metadata_locks;
pub mod perf_schema_statement_digests;
pub mod perf_schema_threads;
pub mod perf_schema_waits;
pub mod processlist;
pub mod replica_status;
pub mod resolve;
pub mod rows;
pub mod secret;
pub mod session;
pub mod source;
pub mod target;
mod tls;
mod unanswered;
pub mod user_locks;
pub mod user_statistics;
mod writing;
pub mod xa_recover;

pub use environment::Environment;
pub use error::{ConnectError, QueryError};
pub use resolve::{ConnectFlags, resolve};
pub use rows::Rows;
pub use secret::Secret;
pub use session::{Limits, Session, SessionCost, WHOLE_ANSWERS};
pub use source::{Plan, Source};
pub use target::{Endpoint, SslMode, Target, Tls, Trust};
pub use unanswered::Unanswered;
pub use writing::{Unwritten, Writing, connect_writer};

/// Every source of the server, in the order in which they are asked.
///
/// The variables first, because the others depend on them; then what changes fastest. Threads and
/// transactions stand before the lock waits, which take connection ids and times from them; the
/// replica's status last, because it may have to wait, and behind it what follows from it.
pub const SOURCES: &[Source] = &[
    global_variables::SOURCE,
    global_status::SOURCE,
    perf_schema_threads::SOURCE,
    processlist::SOURCE,
    innodb_trx::SOURCE,
    xa_recover::SOURCE,
    perf_schema_data_lock_waits::SOURCE,
    innodb_locks::SOURCE,
    perf_schema_metadata_locks::SOURCE,
    metadata_lock_info::SOURCE,
    perf_schema_last_statements::SOURCE,
    user_locks::SOURCE,
    innodb_metrics::SOURCE,
    perf_schema_statement_digests::SOURCE,
    perf_schema_errors::SOURCE,
    perf_schema_waits::SOURCE,
    perf_schema_file_summary::SOURCE,
    perf_schema_accounts::SOURCE,
    user_statistics::SOURCE,
    innodb_status::SOURCE,
    perf_schema_group_members::SOURCE,
    replica_status::SOURCE,
    perf_schema_applier_errors::SOURCE,
];
