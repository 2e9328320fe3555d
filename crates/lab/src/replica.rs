//! A second server whose binary log the first one applies: for scenarios and pile-ups of a replica.

use spindoctor_model::Flavor;

use crate::error::Result;
use crate::home::Home;
use crate::installation::Which;
use crate::load::Tables;
use crate::server::{Server, ServerSpec};

/// Another server with the same rows as this one, and nothing in its binary log.
pub(crate) async fn source(replica: &Server, tables: Tables, more: &[&str]) -> Result<Server> {
    let (which, forget) = match replica.version().flavor {
        Flavor::Mariadb => (Which::Mariadb, "RESET MASTER"),
        _ => (Which::Mysql, "RESET BINARY LOGS AND GTIDS"),
    };
    let options = ["--server-id=2", "--log-bin=source"].iter().chain(more).map(|&option| option.to_owned());
    let spec =
        ServerSpec { which, tables: Some(tables), options: options.collect(), ..ServerSpec::default() };
    let source = Server::start(&Home::open()?, &spec, &|_| {}).await?;
    let statements =
        ["CREATE USER follower@127.0.0.1", "GRANT REPLICATION SLAVE ON *.* TO follower@127.0.0.1", forget];
    source.execute(statements).await?;
    Ok(source)
}

/// What makes the replica read all that the source writes from now on.
pub(crate) fn follow(replica: &Server, port: u16) -> [String; 2] {
    match replica.version().flavor {
        Flavor::Mariadb => [
            format!(
                "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'follower', \
                 MASTER_USE_GTID = slave_pos"
            ),
            "START SLAVE".into(),
        ],
        _ => [
            format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, \
                 SOURCE_USER = 'follower', GET_SOURCE_PUBLIC_KEY = 1"
            ),
            "START REPLICA".into(),
        ],
    }
}
