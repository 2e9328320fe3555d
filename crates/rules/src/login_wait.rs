//! What logins that last wait for, as the stacks of their threads show it.

use spindoctor_model::{Remedy, Severity, TimeShare};

use crate::causes::{accept_bottleneck, connections_exhausted, thread_pool_starved};

/// What a login waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginWait {
    /// A name server: the server looks up the name of the client's host.
    NameServer,
    /// A plugin that is asked about each connection, or about its password.
    Plugin,
    /// The client, which says nothing.
    Client,
    /// No stack says it.
    Unknown,
}

/// Functions, or parts of their names, with what a login waits for that stands in them: glibc's resolver (resolv/res_send.c,
/// nss/getnameinfo.c), the server's calls of plugins (sql/sql_audit.cc, sql/auth, connection_control) and its reads from a client
/// (vio/viosocket.c).
const STANDS_IN: &[(&str, LoginWait)] = &[
    ("__res_", LoginWait::NameServer),
    ("res_nsend", LoginWait::NameServer),
    ("send_dg", LoginWait::NameServer),
    ("getnameinfo", LoginWait::NameServer),
    ("getaddrinfo", LoginWait::NameServer),
    ("gethostbyaddr", LoginWait::NameServer),
    ("ip_to_hostname", LoginWait::NameServer),
    ("mysql_event_tracking_connection_notify", LoginWait::Plugin),
    ("mysql_audit_notify", LoginWait::Plugin),
    ("connection_control", LoginWait::Plugin),
    ("Connection_delay_action", LoginWait::Plugin),
    ("pam_authenticate", LoginWait::Plugin),
    ("ldap_", LoginWait::Plugin),
    ("vio_io_wait", LoginWait::Client),
    ("vio_socket_io_wait", LoginWait::Client),
    ("vio_read", LoginWait::Client),
    ("net_read", LoginWait::Client),
];

/// Causes whose findings logins that the server keeps waiting explain: their connections are taken all the while.
pub(crate) const KEPT_OUT: [&str; 3] =
    [accept_bottleneck::CAUSE.name, connections_exhausted::CAUSE.name, thread_pool_starved::CAUSE.name];

impl LoginWait {
    /// What most of them stand in.
    pub(crate) fn from_share(logins: &TimeShare) -> Self {
        let largest = logins.seen.iter().max_by(|(_, one), (_, other)| one.total_cmp(other));
        let frames = largest.map_or("", |(frames, _)| frames.as_str());
        STANDS_IN.iter().find(|(name, _)| frames.contains(name)).map_or(Self::Unknown, |&(_, wait)| wait)
    }

    /// What follows the number of the sessions in the headline; empty where it is not known.
    pub(crate) fn headline(self) -> &'static str {
        match self {
            Self::NameServer => {
                ": the server asks a name server for the names of their hosts, and gets no answer"
            }
            Self::Plugin => ": a plugin of the server delays them",
            Self::Client => ": their clients say nothing",
            Self::Unknown => "",
        }
    }

    /// True for what the server waits for on its own account: no client is at fault, and each new one waits as long.
    pub(crate) fn is_below(self) -> bool {
        matches!(self, Self::NameServer | Self::Plugin)
    }

    /// What that means; none where it is not known.
    pub(crate) fn why(self) -> Option<&'static str> {
        match self {
            Self::NameServer => Some(
                "Each new connection waits until the name server answers, or the resolver gives up after some seconds; only then its login \
                 goes on. Connections that are open already are not touched.",
            ),
            Self::Plugin => Some(
                "Each new connection waits for the plugin; only then its login goes on. Connections that are open already are not touched.",
            ),
            Self::Client | Self::Unknown => None,
        }
    }

    /// Clients that say nothing harm nobody before they have used up the connections, which is another cause.
    pub(crate) fn most(self) -> Severity {
        if self == Self::Client { Severity::Warning } else { Severity::Critical }
    }

    /// What to do.
    pub(crate) fn remedy(self) -> Remedy {
        let (statement, why, risk) = match self {
            Self::NameServer => (
                "Mend the name server that /etc/resolv.conf of the server's host names, or list the clients' addresses in its /etc/hosts; \
                 then skip_name_resolve = ON in the option file, and a restart",
                "With skip_name_resolve no name is looked up. Accounts must then name addresses ('app'@'10.0.0.%'), not hosts.",
                "With skip_name_resolve accounts that name hosts match no longer.",
            ),
            Self::Plugin => (
                "SHOW GLOBAL VARIABLES LIKE 'connection_control%'; SHOW GLOBAL STATUS LIKE 'Connection_control%'; SHOW PLUGINS",
                "connection_control delays each login of an account after some that failed: \
                 information_schema.CONNECTION_CONTROL_FAILED_LOGIN_ATTEMPTS names it. Find who uses the wrong password; SET GLOBAL \
                 connection_control_failed_connections_threshold = 0 ends the delays. Where it is not there, an audit plugin, PAM or \
                 LDAP is asked.",
                "They only read.",
            ),
            Self::Client => (
                "SHOW FULL PROCESSLIST; SHOW GLOBAL VARIABLES WHERE Variable_name = 'connect_timeout'",
                "Half-open connections of a load balancer, a port scanner or a client whose packets are lost: the list names their hosts. \
                 A smaller connect_timeout ends them sooner.",
                "They only read.",
            ),
            Self::Unknown => (
                "SHOW FULL PROCESSLIST; SHOW GLOBAL VARIABLES WHERE Variable_name IN ('skip_name_resolve', 'connect_timeout')",
                "Whose login lasts for seconds is a client that says nothing, as half-open connections of a load balancer or a scanner \
                 do: a smaller connect_timeout ends them. Or the server looks up the client's name, and the name server is slow: its \
                 stacks then stand in getnameinfo or getaddrinfo, and skip_name_resolve needs a restart. Or a plugin asks PAM or LDAP.",
                "They only read.",
            ),
        };
        Remedy {
            statement: statement.into(),
            why: why.into(),
            dynamic: true,
            risk: risk.into(),
            undo: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{KnownBy, TimeClass};

    use super::*;

    #[test]
    fn the_stacks_say_what_a_login_waits_for() {
        let of = |frames: &str| {
            LoginWait::from_share(&TimeShare {
                class: TimeClass::Login,
                share: 1.0,
                known_by: KnownBy::Stack,
                seen: vec![(frames.to_owned(), 1.0)],
            })
        };
        // Of MySQL 9.7.4.
        assert_eq!(of("poll < __res_context_send < __res_context_query"), LoginWait::NameServer);
        assert_eq!(
            of("THD::event_notify < mysql_event_tracking_connection_notify < thd_prepare_connection"),
            LoginWait::Plugin
        );
        assert_eq!(of("ppoll < vio_io_wait < vio_socket_io_wait"), LoginWait::Client);
        assert_eq!(of("login"), LoginWait::Unknown);
        assert!(of("login").remedy().why.contains("connect_timeout"));
    }
}
