//! A second server whose binary log the first one applies: for scenarios, pile-ups and captures of a replica.

use spindoctor_model::ServerVersion;

use crate::error::Result;
use crate::home::Home;
use crate::load::Tables;
use crate::server::{Server, ServerSpec};

/// Another server with the same rows as this one, and nothing in its binary log.
pub(crate) async fn source(replica: &Server, tables: Tables, more: &[&str]) -> Result<Server> {
    let options = ["--server-id=2", "--log-bin=source"].iter().chain(more).map(|&option| option.to_owned());
    let spec = ServerSpec {
        which: replica.which().clone(),
        tables: Some(tables),
        options: options.collect(),
        ..ServerSpec::default()
    };
    let source = Server::start(&Home::open()?, &spec, &|_| {}).await?;
    source.execute(to_be_followed(source.version())).await?;
    Ok(source)
}

/// Statements that let replicas connect, and empty the binary log: they need not apply what is in it.
pub(crate) fn to_be_followed(source: ServerVersion) -> [&'static str; 3] {
    let forget = if source.mysql_at_least(8, 2, 0) { "RESET BINARY LOGS AND GTIDS" } else { "RESET MASTER" };
    ["CREATE USER follower@127.0.0.1", "GRANT REPLICATION SLAVE ON *.* TO follower@127.0.0.1", forget]
}

/// What makes the replica read all that the source writes from now on.
pub(crate) fn follow(replica: &Server, port: u16) -> [String; 2] {
    // Without a position, MariaDB begins where its GTIDs say.
    let from = if replica.version().is_mariadb() { ", MASTER_USE_GTID = slave_pos" } else { "" };
    follow_from(replica.version(), port, "", from)
}

/// The same by a channel of this name, from a position: `, MASTER_LOG_POS = 4`, in the words of [`words`].
pub(crate) fn follow_from(replica: ServerVersion, port: u16, channel: &str, from: &str) -> [String; 2] {
    let (change, word, slave) = words(replica);
    // caching_sha2_password, the usual plugin from 8.0.4 on, wants a key or TLS.
    let key = if replica.mysql_at_least(8, 0, 4) {
        format!(", GET_{word}_PUBLIC_KEY = 1")
    } else if replica.mariadb_at_least(11, 3, 0) {
        // It asks for TLS of its own accord, which the lab's servers do not have: MDEV-31855.
        ", MASTER_SSL = 0".to_owned()
    } else {
        String::new()
    };
    let (before, after) = match (channel, replica.is_mariadb()) {
        ("", _) => (String::new(), String::new()),
        (channel, true) => (format!(" '{channel}'"), String::new()),
        (channel, false) => (String::new(), format!(" FOR CHANNEL '{channel}'")),
    };
    [
        format!(
            "CHANGE {change}{before} TO {word}_HOST = '127.0.0.1', {word}_PORT = {port}, {word}_USER = 'follower'\
             {from}{key}{after}"
        ),
        format!("START {slave}{before}{after}"),
    ]
}

/// A version's words: for the source, for the prefix of its options, and for a replica.
pub(crate) fn words(replica: ServerVersion) -> (&'static str, &'static str, &'static str) {
    // `CHANGE REPLICATION SOURCE TO` came with 8.0.23, `START REPLICA` with 8.0.22.
    match replica.mysql_at_least(8, 0, 23) {
        true => ("REPLICATION SOURCE", "SOURCE", "REPLICA"),
        false => ("MASTER", "MASTER", "SLAVE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_followed_in_the_words_of_the_version() {
        let of = |version, channel| {
            follow_from(ServerVersion::parse(version, "").unwrap(), 4711, channel, "").join("; ")
        };
        assert_eq!(
            of("9.7.4", ""),
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 4711, SOURCE_USER = 'follower', \
             GET_SOURCE_PUBLIC_KEY = 1; START REPLICA"
        );
        assert_eq!(
            of("5.7.22", "a"),
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 4711, MASTER_USER = 'follower' FOR CHANNEL 'a'; \
             START SLAVE FOR CHANNEL 'a'"
        );
        assert_eq!(
            of("11.4.5-MariaDB", "a"),
            "CHANGE MASTER 'a' TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 4711, MASTER_USER = 'follower', \
             MASTER_SSL = 0; START SLAVE 'a'"
        );
    }
}
