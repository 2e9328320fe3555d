//! What lines of such logs have, and what that means.

/// A program between clients and servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    ProxySql,
    MaxScale,
    Router,
    Orchestrator,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::ProxySql => "ProxySQL",
            Self::MaxScale => "MaxScale",
            Self::Router => "MySQL Router",
            Self::Orchestrator => "orchestrator",
        }
    }

    /// Who says so.
    pub(super) fn source(self) -> &'static str {
        match self {
            Self::ProxySql => "log of ProxySQL",
            Self::MaxScale => "log of MaxScale",
            Self::Router => "log of MySQL Router",
            Self::Orchestrator => "log of orchestrator",
        }
    }

    /// What its log is.
    pub(super) fn sentence(self) -> String {
        format!(
            "it is a log of {}, not of a server: what it says of the servers behind it their own logs may explain",
            self.name()
        )
    }
}

/// A sign.
#[derive(Debug)]
pub(super) struct Sign {
    program: Program,
    /// What a line has before a server's address, a hostgroup or a client.
    pub(super) begin: &'static str,
    /// What it has behind that. [`NOBODY`] first, where nobody is named.
    needs: [&'static str; 2],
    /// What that means, around the name.
    pub(super) before: &'static str,
    pub(super) behind: &'static str,
}

/// Stands for a sign in which nobody is named.
const NOBODY: &str = "\n";

const fn sign(
    program: Program,
    begin: &'static str,
    needs: [&'static str; 2],
    [before, behind]: [&'static str; 2],
) -> Sign {
    Sign { program, begin, needs, before, behind }
}

/// How the lines begin of a replica that does not replicate, and of one that is too far behind.
pub(super) const NULL_LAG: &str = "Replication lag on server ";
pub(super) const OVER_LAG: &str = "Shunning server ";

const OF_READ_ONLY: &str = "Timeout on read_only check for ";
const OF_GROUP: &str = "Timeout on group replication health check for ";
const CHANGED: &str = "Server changed state: ";
const NOT_CONNECTED: &str = "Unable to create a connection";

/// The signs. The first that fits counts.
pub(super) static SIGNS: [Sign; 38] = [
    sign(
        Program::ProxySql,
        "Server ",
        [" missed ", " read_only checks"],
        ["", " did not answer ProxySQL's checks of read_only: it is taken for read-only, and gets no writes"],
    ),
    sign(
        Program::ProxySql,
        "Server ",
        [" missed ", " heartbeats"],
        ["", " did not answer ProxySQL's pings, and gets no queries meanwhile"],
    ),
    sign(Program::ProxySql, "Server ", [" missed ", ""], ["", " did not answer checks of ProxySQL"]),
    sign(
        Program::ProxySql,
        "Server ",
        [" is returning \"Access denied\"", ""],
        ["", " refuses the account of ProxySQL's checks (mysql-monitor_username, mysql-monitor_password)"],
    ),
    sign(
        Program::ProxySql,
        OF_READ_ONLY,
        [" after ", NOT_CONNECTED],
        ["ProxySQL's check of read_only got no connection to ", " (mysql-monitor_connect_timeout)"],
    ),
    sign(
        Program::ProxySql,
        OF_READ_ONLY,
        [" after ", ""],
        ["", " answered the check of read_only too late (mysql-monitor_read_only_timeout)"],
    ),
    sign(
        Program::ProxySql,
        OF_GROUP,
        [" after ", NOT_CONNECTED],
        ["ProxySQL's check of the group got no connection to ", " (mysql-monitor_connect_timeout)"],
    ),
    sign(
        Program::ProxySql,
        OF_GROUP,
        [" after ", ""],
        [
            "",
            " answered the check of its group too late (mysql-monitor_groupreplication_healthcheck_timeout)",
        ],
    ),
    sign(
        Program::ProxySql,
        NULL_LAG,
        [" is NULL", ""],
        [
            "replication has stopped on ",
            " (its lag is NULL): SHOW REPLICA STATUS there says why. ProxySQL takes it for far behind \
             (mysql-monitor_slave_lag_when_null), and sends it no queries",
        ],
    ),
    sign(
        Program::ProxySql,
        OVER_LAG,
        [" with replication lag of ", ""],
        ["", " is a replica that was too far behind (max_replication_lag), and got no queries"],
    ),
    sign(
        Program::ProxySql,
        OVER_LAG,
        [" errors/sec", ""],
        ["ProxySQL sent nothing to ", " for some seconds, because of its errors (mysql-shun_on_failures)"],
    ),
    sign(
        Program::ProxySql,
        "Connect timeout on ",
        [" : ", ""],
        ["a connection to ", " was not made in time"],
    ),
    sign(
        Program::ProxySql,
        "Failed to mysql_real_connect() on ",
        [" , FD ", ""],
        ["a connection to ", " failed"],
    ),
    sign(
        Program::ProxySql,
        "Hostgroup ",
        [" has no servers available", ""],
        ["no server of hostgroup ", " was left"],
    ),
    sign(
        Program::ProxySql,
        "Max connect timeout reached while reaching hostgroup ",
        [" after ", ""],
        ["clients waited for a server of hostgroup ", " until mysql-connect_timeout_server_max was over"],
    ),
    sign(
        Program::MaxScale,
        "Monitor was unable to connect to server ",
        [" : ", ""],
        ["MaxScale's monitor got no connection to ", ""],
    ),
    changed(": master_down. ", ", the primary, went down"),
    changed(": new_master. ", " became the primary"),
    changed(": lost_master. ", " was no primary any more"),
    changed(": slave_down. ", ", a replica, went down"),
    changed(": server_down. ", " went down"),
    changed(": synced_down. ", ", a node of a Galera cluster, went down"),
    changed(": donor_down. ", ", the donor of a Galera cluster, went down"),
    changed(
        ": lost_slave. ",
        " runs, and was no replica any more: its replication stopped, or as a node of a Galera cluster it was not synced",
    ),
    changed(": lost_synced. ", " runs, and was not synced with its Galera cluster any more"),
    sign(
        Program::Router,
        "Member ",
        ["defined in metadata not found in actual ", ""],
        ["", " is in the cluster's metadata, and no member of its group: it left or is down"],
    ),
    sign(
        Program::Router,
        "No available servers found for ",
        ["", ""],
        [
            "Router found no server for ",
            " connections: nothing listens to clients there until the group has one",
        ],
    ),
    sign(
        Program::Router,
        "too many connection errors from ",
        [", blocking", ""],
        [
            "Router blocks the client ",
            " after connections that it broke off before the login (max_connect_errors of Router)",
        ],
    ),
    sign(
        Program::Router,
        "Failed connecting with Metadata Server ",
        [": ", ""],
        ["Router got no connection to ", ""],
    ),
    sign(
        Program::Router,
        "Metadata server ",
        [" is not an online GR member", ""],
        ["", " is no online member of its group"],
    ),
    sign(
        Program::Router,
        "Unable to fetch live group_replication member data from ",
        [NOBODY, ""],
        ["Router got the state of the group from no server", ""],
    ),
    dead(
        "detected DeadMaster failure on ",
        ", the primary, is dead: it does not answer, and no replica gets changes of it",
    ),
    dead(
        "detected DeadMasterAndSlaves failure on ",
        ", the primary, is dead, and its replicas do not answer, too",
    ),
    dead(
        "detected DeadMasterAndReplicas failure on ",
        ", the primary, is dead, and its replicas do not answer, too",
    ),
    dead(
        "detected UnreachableMaster failure on ",
        ", the primary, does not answer orchestrator; its replicas still get changes of it",
    ),
    dead("detected DeadIntermediateMaster failure on ", ", a replica with replicas of its own, is dead"),
    sign(Program::Orchestrator, "successfully promoted ", ["", ""], ["orchestrator made ", " the primary"]),
    sign(
        Program::Orchestrator,
        "no replica promoted",
        [NOBODY, ""],
        ["orchestrator made no replica the primary", ""],
    ),
];

/// What MaxScale's monitor saw of a server.
const fn changed(event: &'static str, behind: &'static str) -> Sign {
    sign(Program::MaxScale, CHANGED, [event, ""], ["", behind])
}

/// What orchestrator found.
const fn dead(begin: &'static str, behind: &'static str) -> Sign {
    sign(Program::Orchestrator, begin, ["", ""], ["", behind])
}

/// Which sign a line of a program has, and of whom.
pub(super) fn find(program: Program, line: &str) -> Option<(usize, &str)> {
    let of_program = SIGNS.iter().enumerate().filter(|(_, sign)| sign.program == program);
    let mut found = of_program.filter_map(|(at, sign)| Some((at, sign.name(line)?)));
    found.next()
}

impl Sign {
    /// The name in a line that has the sign; empty where the sign has none.
    fn name<'l>(&self, line: &'l str) -> Option<&'l str> {
        let (_, rest) = line.split_once(self.begin)?;
        if self.needs[0] == NOBODY {
            return Some("");
        }
        let word = rest.split([' ', ',']).next().unwrap_or_default();
        let name = word.trim_end_matches([':', '.', ';']);
        let behind = &rest[name.len()..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".:-_[]".contains(c);
        let is_it = !name.is_empty() && name.chars().all(is_name);
        (is_it && self.needs.iter().all(|need| behind.contains(need))).then_some(name)
    }
}
