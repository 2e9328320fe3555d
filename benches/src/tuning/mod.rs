//! What `tune` finds, how often it is wrong, and what a kill leaves behind.

pub(crate) mod by_waits;
pub(crate) mod experiments;
pub(crate) mod killed;
pub(crate) mod mis_set_spin;
pub(crate) mod no_effect;
pub(crate) mod predicted;
pub(crate) mod spin_loops;
mod spin_settings;
pub(crate) mod truth_table;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::Server;

/// The flags that lead to a server of the lab.
fn connection(server: &Server) -> Vec<String> {
    let socket = server.socket().display().to_string();
    ["--no-defaults", "-u", "root", "-S", &socket].map(str::to_owned).into()
}

/// Global variables, in order of their names' place in the list.
async fn settings(asked: &mut Conn, names: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut values = Vec::new();
    for name in names {
        let value: Option<String> = asked.query_first(format!("SELECT @@GLOBAL.{name}")).await?;
        values.push(value.unwrap_or_default());
    }
    Ok(values)
}

/// Sets global variables to these values.
async fn set(asked: &mut Conn, names: &[&str], values: &[String]) -> anyhow::Result<()> {
    for (name, value) in names.iter().zip(values) {
        asked.query_drop(format!("SET GLOBAL {name} = {value}")).await?;
    }
    Ok(())
}
