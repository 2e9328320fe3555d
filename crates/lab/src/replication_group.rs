//! One or two members of a replication group (Group Replication of MySQL 8.0.26 and later) on one machine.
//!
//! Of two, both begin as copies of one template, with nothing in their binary logs, so that the second has all that the first has.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::home::Home;
use crate::load::Tables;
use crate::server::{Server, ServerSpec, free_port};

/// The options of a member. Where it listens for the others is set when it joins.
pub(crate) const OPTIONS: &[&str] = &[
    "--plugin-load-add=group_replication.so",
    "--group-replication-group-name=6a1f0c52-3f0e-4c8e-9d53-0f9b7f1d2c11",
    "--group-replication-start-on-boot=OFF",
    // caching_sha2_password wants a key or TLS.
    "--group-replication-recovery-get-public-key=ON",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--log-bin=binlog",
    "--report-host=127.0.0.1",
];

/// The second member must be online within this time.
const JOINED_WITHIN: Duration = Duration::from_secs(30);

/// Makes a group of this server, and of a second one with the same rows, which is online.
pub(crate) async fn second(first: &Server, tables: Tables) -> Result<Server> {
    let options = ["--server-id=2"].iter().chain(OPTIONS).map(|&option| option.to_owned());
    let spec = ServerSpec {
        which: first.which().clone(),
        tables: Some(tables),
        options: options.collect(),
        ..ServerSpec::default()
    };
    let second = Server::start(&Home::open()?, &spec, &|_| {}).await?;
    let seed = alone(first).await?;
    second.execute(prepared(&second, free_port()?, seed)).await?;
    second.execute(["START GROUP_REPLICATION"]).await?;
    let begun = Instant::now();
    loop {
        let online =
            "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'";
        let online = first.ask(online).await?.unwrap_or_default();
        if online == "2" {
            return Ok(second);
        }
        if begun.elapsed() > JOINED_WITHIN {
            return Err(Error::Unable {
                what: "a second member",
                because: format!("{online} are online after {} s", JOINED_WITHIN.as_secs()),
            });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Makes a group of this server; the port at which others join it.
pub(crate) async fn alone(first: &Server) -> Result<u16> {
    let seed = free_port()?;
    first.execute(prepared(first, seed, seed)).await?;
    let bootstrap = "SET GLOBAL group_replication_bootstrap_group";
    first
        .execute([&format!("{bootstrap} = ON"), "START GROUP_REPLICATION", &format!("{bootstrap} = OFF")])
        .await?;
    Ok(seed)
}

/// What a member needs before it starts: an account for others to catch up by, and no history of its own.
fn prepared(server: &Server, port: u16, seed: u16) -> [String; 6] {
    let forget =
        if server.version().mysql_at_least(8, 2, 0) { "RESET BINARY LOGS AND GTIDS" } else { "RESET MASTER" };
    [
        "CREATE USER follower@127.0.0.1".to_owned(),
        "GRANT REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO follower@127.0.0.1"
            .to_owned(),
        forget.to_owned(),
        "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'follower' FOR CHANNEL 'group_replication_recovery'".to_owned(),
        format!("SET GLOBAL group_replication_local_address = '127.0.0.1:{port}'"),
        format!("SET GLOBAL group_replication_group_seeds = '127.0.0.1:{seed}'"),
    ]
}
