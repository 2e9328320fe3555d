//! The server of the sweep: a throw-away one, or one that the user named and confirmed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use spindoctor_collect::gauges::read_host;
use spindoctor_collect::mysql::{Endpoint, Session, Target};
use spindoctor_collect::{ground, host};
use spindoctor_lab::load::{self, Login, Tables};
use spindoctor_lab::{Home, KNOWN, Known, Server, ServerSpec, Which, place};
use spindoctor_model::ServerVersion;
use spindoctor_model::mysql::NamedValues;
use spindoctor_record::moves_by_itself;
use spindoctor_tune::sweep::{Conditions, Setting};

use super::args::Sweep;
use super::limits;
use crate::common::flags::Connection;
use crate::common::{output, session};
use crate::lab::{announce, data, which};
use spindoctor_page::number;
use spindoctor_page::safe::safe;

/// The server, and how it is reached.
#[derive(Debug)]
pub struct Swept {
    /// Where its settings are changed.
    pub target: Target,
    /// What it is.
    pub version: ServerVersion,
    /// Its process, where that is on this host.
    process: Option<host::Target>,
    /// What the runs are made with.
    pub conditions: Conditions,
    tables: Tables,
    /// Ends with this.
    lab: Option<Server>,
}

impl Swept {
    /// Starts the throw-away server, or connects to the one that was named.
    pub async fn begin(asked: &Sweep) -> anyhow::Result<Self> {
        let tables = Tables { count: asked.tables, rows: asked.rows };
        let conditions = Conditions {
            machine: spindoctor_lab::machine(),
            quota_cpus: asked.quota,
            options: asked.options.clone(),
            workload: asked.workload.iter().filter_map(|one| one.name()).collect::<Vec<_>>().join(", "),
            tables: asked.tables,
            rows: asked.rows,
            warmup_s: asked.warmup.as_secs_f64(),
            measured_s: asked.seconds.as_secs_f64(),
            ..Conditions::default()
        };
        match asked.yes_this_server {
            true => Self::named(&asked.connection, asked.prepare, tables, conditions).await,
            false => Self::lab(asked, tables, conditions).await,
        }
    }

    async fn lab(asked: &Sweep, tables: Tables, conditions: Conditions) -> anyhow::Result<Self> {
        if is_named(&asked.connection) {
            bail!(
                "a sweep loads a server as much as it can and changes its settings: say --yes-this-server where that is \
                 what you want, or leave the connection flags out for a throw-away server"
            );
        }
        let spec = ServerSpec {
            which: which(&asked.lab.which),
            data: data(&asked.lab.data),
            limits: limits::at_start(asked)?,
            tables: Some(tables),
            options: room_for(&asked.threads).into_iter().chain(asked.options.iter().cloned()).collect(),
            ..ServerSpec::default()
        };
        let home = Home::open()?;
        let known = KNOWN.iter().find(|known| Which::by_name(known.name).as_ref() == Some(&spec.which));
        let known = known.map(|known| (known, place(&home, known)));
        output::note(&format!("sweep: {}", safe(&started_text(known, home.root()))));
        let server = Server::start(&home, &spec, &announce).await?;
        let target = Target::new(Endpoint::Socket(server.socket().to_owned()), "root");
        let process = host::Target::live(server.pid());
        let mut session = Session::connect(&target, &target.limits).await?;
        let settings = settings(&ground::all_variables(&mut session).await?);
        session.close().await;
        Ok(Self {
            target,
            version: server.version(),
            conditions: Conditions {
                server: server.version().to_string(),
                address: "a throw-away server".to_owned(),
                hardware: ground::machine(&process),
                settings,
                ..conditions
            },
            process: Some(process),
            tables,
            lab: Some(server),
        })
    }

    async fn named(
        connection: &Connection,
        prepare: bool,
        tables: Tables,
        conditions: Conditions,
    ) -> anyhow::Result<Self> {
        let target = session::target(connection)?;
        let mut session = Session::connect(&target, &target.limits).await?;
        let version = session.version().context("the server does not say which version it is")?;
        let server = session.server();
        if prepare {
            announce(&format!("filling {}", tables_text(tables)));
            load::fill(&target, tables).await?;
        }
        expect_tables(&mut session, &target, tables).await?;
        let settings = settings(&ground::all_variables(&mut session).await?);
        session.close().await;
        let process = match connection.remote {
            true => None,
            false => session::process(connection, &target).ok().map(|(pid, _)| host::Target::live(pid)),
        };
        Ok(Self {
            conditions: Conditions {
                server,
                address: target.address(),
                hardware: process.as_ref().map(ground::machine).unwrap_or_default(),
                settings,
                ..conditions
            },
            target,
            version,
            process,
            tables,
            lab: None,
        })
    }

    /// How sysbench's clients log in.
    pub fn login(&self) -> Login<'_> {
        match &self.lab {
            Some(server) => Login::Lab(server.socket()),
            None => Login::Target(&self.target),
        }
    }

    /// sysbench's tables on it.
    pub fn tables(&self) -> Tables {
        self.tables
    }

    /// Sets what of a setting is a limit of a throw-away server.
    pub fn limit(&self, setting: &Setting) -> anyhow::Result<()> {
        limits::set(self.lab.as_ref(), setting)
    }

    /// Its process, where that is on this host.
    pub fn pid(&self) -> Option<u32> {
        Some(self.process.as_ref()?.pid)
    }

    /// CPU time of its process so far, microseconds; none where that cannot be read.
    pub fn cpu_us(&self) -> Option<f64> {
        let sample = read_host(self.process.as_ref()?);
        let process = sample.process.value()?;
        Some((process.user_us + process.system_us) as f64)
    }

    /// Ends the throw-away server.
    pub fn end(self) -> anyhow::Result<()> {
        Ok(self.lab.map_or(Ok(()), Server::stop)?)
    }
}

/// What is about to be started, and where it comes from: a download is announced before it begins.
fn started_text(known: Option<(&Known, Option<PathBuf>)>, root: &Path) -> String {
    let what = "a throw-away server is started, and removed at the end (--yes-this-server measures another)";
    match known {
        None => what.to_owned(),
        Some((known, Some(folder))) => format!("{what}: {}, in {}", known.name, folder.display()),
        Some((known, None)) => format!(
            "{what}: {}, which is installed first, below {}: up to 350 MB, from {}",
            known.name,
            root.display(),
            known.origin()
        ),
    }
}

/// `4 tables of 10,000 rows`
fn tables_text(tables: Tables) -> String {
    let count = number::counted(u64::from(tables.count), "table", "tables");
    format!("{count} of {}", number::counted(u64::from(tables.rows), "row", "rows"))
}

/// Variables that say who a server is, and to whom it speaks.
const IDENTITY: [&str; 14] = [
    "admin_port",
    "hostname",
    "init_connect",
    "init_replica",
    "init_slave",
    "log_bin_basename",
    "mysqlx_port",
    "port",
    "relay_log",
    "report_host",
    "report_port",
    "server_id",
    "server_uuid",
    "wsrep_node_name",
];

/// Variables that may matter for how fast a server is: without those that change by themselves, and those that say who
/// and where it is.
fn settings(variables: &NamedValues) -> BTreeMap<String, String> {
    let is_path = |value: &str| value.starts_with(['/', '.']);
    let of_interest = variables.iter().filter(|(name, value)| {
        !moves_by_itself(name) && !IDENTITY.contains(name) && !name.starts_with("version") && !is_path(value)
    });
    of_interest.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Connections beside the clients': the sweep's own, and those that are not gone yet.
const SPARE_CONNECTIONS: u32 = 50;
/// The most that both servers take (`max_prepared_stmt_count`): each of sysbench's clients prepares some statements
/// for each table.
const MOST_PREPARED: u32 = 1_048_576;

/// Options of a throw-away server that lets all clients in, where its defaults (151 connections) would not.
fn room_for(threads: &[u32]) -> [String; 2] {
    let clients = threads.iter().copied().max().unwrap_or(0);
    let connections = clients.saturating_add(SPARE_CONNECTIONS).max(151);
    [format!("--max-connections={connections}"), format!("--max-prepared-stmt-count={MOST_PREPARED}")]
}

/// True where a flag says which server is meant.
fn is_named(connection: &Connection) -> bool {
    let Connection { target, host, port, socket, login, .. } = connection;
    let paths: [Option<&Path>; 2] = [socket.as_deref(), login.defaults_file.as_deref()];
    target.is_some()
        || host.is_some()
        || port.is_some()
        || login.login_path.is_some()
        || paths.iter().any(Option::is_some)
}

/// Fails where the tables are not there, or are smaller than the clients would assume: a read that finds no row is
/// faster than one that does.
async fn expect_tables(session: &mut Session, target: &Target, tables: Tables) -> anyhow::Result<()> {
    let database = target.database.as_deref().unwrap_or("sbtest").replace('`', "``");
    for table in 1..=tables.count {
        let question = format!("SELECT COALESCE(MAX(id), 0) FROM `{database}`.`sbtest{table}`");
        let rows = session.query(&question).await.map_err(|error| {
            anyhow::anyhow!(
                "sysbench's table {database}.sbtest{table} is wanted ({error}): --prepare creates and fills the tables in \
                 a database that is there already"
            )
        })?;
        let last: u64 = rows.first().and_then(|row| row.at(0)?.parse().ok()).unwrap_or_default();
        if last < u64::from(tables.rows) {
            bail!("{database}.sbtest{table} has {last} rows, not {}: say --rows {last}", tables.rows);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_is_announced_with_where_it_comes_from() {
        let known = KNOWN.iter().find(|known| known.also == Some("mysql")).unwrap();
        let text =
            |folder: Option<&str>| started_text(Some((known, folder.map(PathBuf::from))), Path::new("/lab"));
        assert!(text(Some("/lab/mysql")).ends_with("another): mysql-9.7, in /lab/mysql"));
        let first = text(None);
        assert!(first.contains("installed first, below /lab: up to 350 MB, from Debian unstable"), "{first}");
        assert!(started_text(None, Path::new("/lab")).contains("--yes-this-server"));
    }

    #[test]
    fn one_table_of_one_row_is_not_several() {
        assert_eq!(tables_text(Tables { count: 1, rows: 1 }), "1 table of 1 row");
        assert_eq!(tables_text(Tables { count: 4, rows: 10_000 }), "4 tables of 10,000 rows");
    }

    #[test]
    fn settings_say_neither_where_a_server_is_nor_what_changes_by_itself() {
        let variables: NamedValues = [
            ("sync_binlog", "1"),
            ("socket", "/run/mysqld.sock"),
            ("hostname", "db17"),
            ("version_comment", "Source"),
            ("timestamp", "1763750000.5"),
        ]
        .into_iter()
        .collect();
        assert_eq!(settings(&variables), BTreeMap::from([("sync_binlog".to_owned(), "1".to_owned())]));
    }
}
