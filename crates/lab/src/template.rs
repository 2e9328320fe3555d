//! Data folders that are made once and copied for each server: initialised, with the lab's accounts,
//! and, where load needs them, with sysbench's tables.
//!
//! Accounts: `root@localhost` and `app@localhost` without password, which only the unix socket in the
//! server's private folder reaches (`--skip-name-resolve` keeps TCP out), and
//! `spindoctor@127.0.0.1`, password `spindoctor`, with the rights that `doctor` asks for and no more.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{Progress, is_root, last_lines, run};
use crate::error::{Error, Result};
use crate::galera::{self, GaleraNode};
use crate::home::{Home, create_private_dir};
use crate::installation::{Installation, path_option};
use crate::load::{Tables, sysbench};
use crate::server::{Launch, Server};

/// Changes when templates are made differently: older ones are then not used again.
const EDITION: u32 = 1;

/// The first MySQL that initialises a data folder itself: `--initialize-insecure` (5.7.6 release notes).
const INITIALISES: (u16, u16, u16) = (5, 7, 6);

/// The template's data folder; made first where there is none yet.
pub(crate) async fn ready(
    home: &Home,
    installation: &Installation,
    tables: Option<Tables>,
    progress: Progress<'_>,
) -> Result<PathBuf> {
    let base = prepare(home, &name(installation, None), progress, async |data| {
        initialise(installation, data)?;
        let server = Server::launch(home, installation, Launch::in_place(data)).await?;
        server.execute(accounts(installation)).await?;
        server.shut_down().await
    })
    .await?;
    let Some(tables) = tables else { return Ok(base) };
    prepare(home, &name(installation, Some(tables)), progress, async |data| {
        copy(&base, data)?;
        let mut launch = Launch::in_place(data);
        // Filling tables needs no safety and gains much from room.
        launch.options = ["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0", "--loose-disable-log-bin"]
            .map(str::to_owned)
            .into();
        let server = Server::launch(home, installation, launch).await?;
        sysbench::prepare(server.socket(), tables, progress)?;
        server.shut_down().await
    })
    .await
}

/// The same after it was a cluster of one node: a copy of it can make a cluster, and another copy can join that.
pub(crate) async fn of_cluster(
    home: &Home,
    installation: &Installation,
    tables: Option<Tables>,
    progress: Progress<'_>,
) -> Result<PathBuf> {
    let base = ready(home, installation, tables, progress).await?;
    prepare(home, &format!("{}-galera", name(installation, tables)), progress, async |data| {
        copy(&base, data)?;
        let mut launch = Launch::in_place(data);
        launch.options = galera::options(home, GaleraNode::First, progress)?;
        let server = Server::launch(home, installation, launch).await?;
        // A position is stored with the first change.
        let first = ["CREATE DATABASE galera", "CREATE TABLE galera.first (id INT PRIMARY KEY)"];
        server.execute(first.into_iter().chain(["INSERT INTO galera.first VALUES (1)"])).await?;
        server.shut_down().await?;
        galera::forget_the_node(data)
    })
    .await
}

/// Copies a template's data folder to where a server will run.
pub(crate) fn copy(template: &Path, data: &Path) -> Result<()> {
    run(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(template.join(".")).arg(data)).map(drop)
}

fn name(installation: &Installation, tables: Option<Tables>) -> String {
    let base = format!("{}-e{EDITION}", installation.key());
    match tables {
        None => base,
        Some(Tables { count, rows }) => format!("{base}-sbtest-{count}x{rows}"),
    }
}

async fn prepare(
    home: &Home,
    name: &str,
    progress: Progress<'_>,
    fill: impl AsyncFnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let template = home.templates().join(name);
    if template.exists() {
        return Ok(template);
    }
    let _lock = home.lock(&format!("template-{name}"))?;
    if template.exists() {
        return Ok(template);
    }
    progress(&format!("preparing the data folder {name}, once"));
    create_private_dir(&home.templates())?;
    let workshop = home.workshop(&format!("template-{name}"))?;
    let data = workshop.path().join("data");
    create_private_dir(&data)?;
    fill(&data).await?;
    // Each copy shall be a server of its own.
    match fs::remove_file(data.join("auto.cnf")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::file("remove", &data.join("auto.cnf"))(error));
        }
        _ => {}
    }
    fs::rename(&data, &template).map_err(Error::file("move the data folder to", &template))?;
    Ok(template)
}

fn initialise(installation: &Installation, data: &Path) -> Result<()> {
    let mut server = Command::new(&installation.server);
    let temporary = data.with_file_name("tmp");
    create_private_dir(&temporary)?;
    server
        .arg("--no-defaults")
        .args(installation.folders())
        .args([path_option("datadir", data), path_option("tmpdir", &temporary)]);
    if is_root() {
        server.arg("--user=root");
    }
    let (major, minor, patch) = INITIALISES;
    if installation.version.mysql_at_least(major, minor, patch) {
        return run(server.arg("--initialize-insecure")).map(drop);
    }
    bootstrap(&mut server, installation, data)
}

/// What `mariadb-install-db` and `mysql_install_db` do, without the programs of other packages that they need.
fn bootstrap(server: &mut Command, installation: &Installation, data: &Path) -> Result<()> {
    // Named mysql_... until 11, mariadb_... since.
    const SCRIPTS: [&str; 5] =
        ["system_tables", "performance_tables", "system_tables_data", "", "sys_schema"];
    let mut sql = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n\
                   SET @skip_auth_anonymous=1;\n"
        .to_owned();
    for script in SCRIPTS {
        let names = match script {
            "" => ["fill_help_tables.sql".to_owned(), String::new()],
            _ => [format!("mariadb_{script}.sql"), format!("mysql_{script}.sql")],
        };
        let files = names.map(|name| installation.share.join(name));
        // Each version has the ones it needs: MySQL 5.5 knows no sys_schema.
        let Some(file) = files.iter().find(|file| file.is_file()) else { continue };
        sql += &fs::read_to_string(file).map_err(Error::file("read", file))?;
        sql += "\n";
    }
    let log = data.with_file_name("bootstrap.log");
    let log_file = fs::File::create(&log).map_err(Error::file("create", &log))?;
    let mut child = server
        .args(["--bootstrap", "--loose-enforce-storage-engine="])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log_file)
        .spawn()
        .map_err(Error::file("run", &installation.server))?;
    let mut stdin = child.stdin.take().expect("stdin was asked for");
    // A server that dies early closes the pipe; its status and log say why.
    let _pipe = stdin.write_all(sql.as_bytes());
    drop(stdin);
    let status = child.wait().map_err(Error::file("wait for", &installation.server))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Program {
        program: format!("{} --bootstrap", installation.server.display()),
        status: status.to_string(),
        said: last_lines(&fs::read_to_string(&log).unwrap_or_default(), 12),
    })
}

fn accounts(installation: &Installation) -> Vec<String> {
    let mut statements = vec![
        "CREATE DATABASE sbtest",
        "CREATE USER app@localhost",
        "GRANT ALL ON sbtest.* TO app@localhost",
        "CREATE USER spindoctor@'127.0.0.1' IDENTIFIED BY 'spindoctor'",
        "GRANT SELECT ON performance_schema.* TO spindoctor@'127.0.0.1'",
    ];
    // MariaDB has these rights apart since 10.5.2 and 10.5.9.
    statements.push(if installation.version.mariadb_at_least(10, 5, 9) {
        "GRANT PROCESS, REPLICA MONITOR, BINLOG MONITOR ON *.* TO spindoctor@'127.0.0.1'"
    } else {
        "GRANT PROCESS, REPLICATION CLIENT ON *.* TO spindoctor@'127.0.0.1'"
    });
    statements.into_iter().map(str::to_owned).collect()
}
