//! sysbench: fills tables, loads a server, and says how it went.

use std::path::Path;
use std::process::Command;

use crate::command::{Progress, ensure, run};
use crate::error::Result;

/// sysbench's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tables {
    /// How many: `sbtest1` and so on.
    pub count: u32,
    /// Rows of each.
    pub rows: u32,
}

/// Creates and fills the tables in the database `sbtest`.
pub(crate) async fn prepare(socket: &Path, tables: Tables, progress: Progress<'_>) -> Result<()> {
    ensure("sysbench", progress)?;
    run(Command::new("sysbench")
        .arg("oltp_read_write")
        .args(connection(socket))
        .args([format!("--tables={}", tables.count), format!("--table-size={}", tables.rows)])
        .arg("prepare"))?;
    Ok(())
}

fn connection(socket: &Path) -> Vec<String> {
    vec![
        "--db-driver=mysql".into(),
        format!("--mysql-socket={}", socket.display()),
        "--mysql-user=app".into(),
        "--mysql-db=sbtest".into(),
    ]
}
