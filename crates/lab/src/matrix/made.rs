//! What some places take beyond options and statements: another server beside, keys, tens of thousands of tables.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;

use super::troubles::TABLES;
use crate::command::Progress;
use crate::error::{Error, Result};
use crate::galera::GaleraNode;
use crate::home::Home;
use crate::scenario::symptom;
use crate::server::{Server, ServerSpec};
use crate::{install, replica, replication_group};

/// What is made of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// Nothing.
    Alone,
    /// The first node of a Galera cluster, and the only one.
    GaleraNode,
    /// The only member of a replication group.
    GroupMember,
    /// A source whose commits wait for a replica's acknowledgement, with the replica beside.
    Acknowledged,
    /// Its tables, logs and temporary files are encrypted.
    Encrypted,
    /// MariaDB's plugin that lists metadata locks is loaded.
    MetadataLockInfo,
    /// It has so many tables more.
    ManyTables(u32),
}

/// How long a replica, or a group, may take to be there, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(200);
/// Sessions that make tables, and tables in one text: the server works at them without a pause.
const MAKERS: u32 = 2;
const AT_ONCE: u32 = 200;

/// Keys of `file_key_management`, in the form of MariaDB's manual: `ID;HEX`.
const KEYS: &str = "1;a7addd9adea9978fda19f21e6be987880e68ac92632ca052e5bb42b1a506939a\n";

impl Made {
    /// What the server is started with.
    pub(super) fn prepare(
        self,
        home: &Home,
        is_mariadb: bool,
        spec: &mut ServerSpec,
        progress: Progress<'_>,
    ) -> Result<()> {
        match self {
            Self::Alone | Self::ManyTables(_) => {}
            Self::GaleraNode => spec.galera = Some(GaleraNode::First),
            Self::GroupMember => add(spec, replication_group::OPTIONS),
            Self::Acknowledged if is_mariadb => {
                add(spec, &["--log-bin=binlog", "--rpl-semi-sync-master-enabled=1"]);
            }
            Self::Acknowledged => add(
                spec,
                &[
                    "--log-bin=binlog",
                    "--plugin-load-add=rpl_semi_sync_source=semisync_source.so",
                    "--rpl-semi-sync-source-enabled=1",
                ],
            ),
            Self::Encrypted if is_mariadb => {
                let keys = keys(home)?;
                load_plugin(home, spec, "file_key_management", progress)?;
                spec.options.push(format!("--file-key-management-filename={}", keys.display()));
                add(
                    spec,
                    &[
                        "--innodb-encrypt-tables=ON",
                        "--innodb-encrypt-log=ON",
                        "--innodb-encryption-threads=1",
                        "--encrypt-tmp-files=ON",
                    ],
                );
            }
            // Its keys lie in a folder of the data folder, in which it runs. From 8.4 on they are a component's, whose manifest
            // lies beside the program.
            Self::Encrypted => add(
                spec,
                &[
                    "--early-plugin-load=keyring_file.so",
                    "--keyring-file-data=keyring/keys",
                    "--innodb-redo-log-encrypt=ON",
                    "--innodb-undo-log-encrypt=ON",
                ],
            ),
            Self::MetadataLockInfo => load_plugin(home, spec, "metadata_lock_info", progress)?,
        }
        Ok(())
    }

    /// What is made of it once it runs; the server that must stay beside it.
    pub(super) async fn finish(self, home: &Home, server: &Server) -> Result<Option<Server>> {
        match self {
            Self::Alone | Self::GaleraNode | Self::MetadataLockInfo => {}
            Self::GroupMember => {
                replication_group::alone(server).await?;
                // It is read-only until it has elected itself.
                let question = "SELECT @@GLOBAL.super_read_only";
                until(async || -> Result<bool> { Ok(symptom::number(server, question).await? == 0) }).await?;
            }
            Self::Acknowledged => return replica_of(home, server).await.map(Some),
            Self::Encrypted => {
                let option = if server.version().is_mariadb() { "ENCRYPTED=YES" } else { "ENCRYPTION='Y'" };
                server.execute([format!("ALTER TABLE sbtest.sbtest1 {option}")]).await?;
            }
            Self::ManyTables(count) => many_tables(server, count).await?,
        }
        Ok(None)
    }
}

fn add(spec: &mut ServerSpec, options: &[&str]) {
    spec.options.extend(options.iter().map(|&option| option.to_owned()));
}

/// Has MariaDB 10.11 load a plugin that is not in the package of its program.
fn load_plugin(home: &Home, spec: &mut ServerSpec, plugin: &str, progress: Progress<'_>) -> Result<()> {
    let folder = install::mariadb_plugins(home, progress)?;
    spec.options.push(format!("--plugin-dir={}", folder.display()));
    spec.options.push(format!("--plugin-load-add={plugin}"));
    Ok(())
}

/// The file of keys; made first where it is not there yet.
fn keys(home: &Home) -> Result<PathBuf> {
    let keys = home.root().join("keys-that-protect-nothing");
    if !std::fs::read_to_string(&keys).is_ok_and(|text| text == KEYS) {
        // Another lab that reads it meanwhile must not see half of it.
        let part = home.root().join(format!("keys-{}", std::process::id()));
        std::fs::write(&part, KEYS).map_err(Error::file("write", &part))?;
        std::fs::rename(&part, &keys).map_err(Error::file("move the keys to", &keys))?;
    }
    Ok(keys)
}

/// A replica that acknowledges what it has received; it has done so once.
async fn replica_of(home: &Home, source: &Server) -> Result<Server> {
    let is_mariadb = source.version().is_mariadb();
    source.execute(replica::to_be_followed(source.version())).await?;
    let options: &[&str] = match is_mariadb {
        true => &["--server-id=2", "--rpl-semi-sync-slave-enabled=1"],
        false => &[
            "--server-id=2",
            "--plugin-load-add=rpl_semi_sync_replica=semisync_replica.so",
            "--rpl-semi-sync-replica-enabled=1",
        ],
    };
    let mut spec =
        ServerSpec { which: source.which().clone(), tables: Some(TABLES), ..ServerSpec::default() };
    add(&mut spec, options);
    let replica = Server::start(home, &spec, &|_| {}).await?;
    replica.execute(replica::follow(&replica, source.port())).await?;
    let acknowledged = if is_mariadb { "Rpl_semi_sync_master_yes_tx" } else { "Rpl_semi_sync_source_yes_tx" };
    until(async || -> Result<bool> {
        source.execute(["UPDATE sbtest.sbtest1 SET k = k + 1 WHERE id = 1"]).await?;
        Ok(symptom::status(source, acknowledged).await? >= 1.0)
    })
    .await?;
    Ok(replica)
}

/// Returns once this is so.
async fn until(is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is_so().await? {
        if begun.elapsed() > PATIENCE {
            return Err(Error::Unable {
                what: "a place of the matrix",
                because: format!("the server is not what it should be after {} s", PATIENCE.as_secs()),
            });
        }
        tokio::time::sleep(EVERY).await;
    }
    Ok(())
}

/// Tables of MyISAM, the cheapest that both lines have: three small files each, and no page of a buffer pool.
async fn many_tables(server: &Server, count: u32) -> Result<()> {
    server.execute(["CREATE DATABASE many"]).await?;
    let mut makers = JoinSet::new();
    for maker in 0..MAKERS {
        let mut conn = server.connect().await.map_err(Error::statement("connect"))?;
        makers.spawn(async move {
            let own: Vec<u32> = (0..count).filter(|table| table % MAKERS == maker).collect();
            for some in own.chunks(AT_ONCE as usize) {
                let text: String = some
                    .iter()
                    .map(|table| format!("CREATE TABLE many.t{table} (id INT PRIMARY KEY) ENGINE = MyISAM;"))
                    .collect();
                conn.query_drop(text).await.map_err(Error::statement("CREATE TABLE many.t..."))?;
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(made) = makers.join_next().await {
        // It panics nowhere, and nobody ends it.
        made.unwrap_or(Ok(()))?;
    }
    let there = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'many'";
    let made = symptom::number(server, there).await?;
    if made == u64::from(count) {
        return Ok(());
    }
    Err(Error::Unable { what: "many tables", because: format!("{made} of {count} were made") })
}
