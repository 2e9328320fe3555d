//! Which error refuses the logins, where its number is counted or a variable says it.

use std::collections::BTreeMap;

use spindoctor_model::{Remedy, Window};

/// Why the server refuses a login, known by its number. Numbers: share/messages_to_clients.txt; MariaDB, sql/share/errmsg-utf8.txt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// `offline_mode` (3032).
    Offline,
    /// `require_secure_transport` (3159).
    WithoutTls,
    /// The account is locked (3118; MariaDB 4151).
    Locked,
    /// Locked for a time after wrong passwords (3955).
    LockedByPasswords,
    /// Blocked after `max_password_errors` (MariaDB 4150).
    BlockedByPasswords,
    /// The client's host is blocked (1129).
    HostBlocked,
}

impl Named {
    fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            3032 => Self::Offline,
            3159 => Self::WithoutTls,
            3118 | 4151 => Self::Locked,
            3955 => Self::LockedByPasswords,
            4150 => Self::BlockedByPasswords,
            1129 => Self::HostBlocked,
            _ => return None,
        })
    }

    /// The number that was raised for at least so many logins of the window.
    pub(super) fn by_number(window: &Window, least: f64) -> Option<Self> {
        raised(window)
            .into_iter()
            .filter_map(|(number, count)| Some((Self::from_number(number)?, count)))
            .filter(|(_, count)| *count > 0.0 && *count >= least)
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(named, _)| named)
    }

    /// What a variable says that refuses every account but those of administrators.
    pub(super) fn by_variable(window: &Window) -> Option<Self> {
        is_on(window, "offline_mode").then_some(Self::Offline)
    }

    /// The end of the headline.
    pub(super) fn headline(self) -> &'static str {
        match self {
            Self::Offline => "offline_mode = ON",
            Self::WithoutTls => "they come without TLS, which require_secure_transport demands",
            Self::Locked => "the account is locked",
            Self::LockedByPasswords => "the account is locked after wrong passwords",
            Self::BlockedByPasswords => "the account is blocked after wrong passwords",
            Self::HostBlocked => "the client's host is blocked",
        }
    }

    pub(super) fn why(self) -> &'static str {
        match self {
            Self::Offline => {
                "offline_mode = ON refuses every account without CONNECTION_ADMIN or SUPER with error 3032, and has closed the connections \
                 that they had. An operator set it, or a member that left its group \
                 (group_replication_exit_state_action = OFFLINE_MODE)."
            }
            Self::WithoutTls => {
                "Clients see error 3159: require_secure_transport = ON admits TLS and local sockets alone."
            }
            Self::Locked => {
                "Clients see error 3118 (MariaDB 4151): somebody locked the account by ALTER USER ... ACCOUNT LOCK."
            }
            Self::LockedByPasswords => {
                "Clients see error 3955: the account has FAILED_LOGIN_ATTEMPTS, and somebody sent so many wrong passwords. It stays locked \
                 for its PASSWORD_LOCK_TIME."
            }
            Self::BlockedByPasswords => {
                "Clients see error 4150: somebody sent as many wrong passwords as max_password_errors allows. The right one does not help then."
            }
            Self::HostBlocked => {
                "Clients see error 1129: their host broke off as many handshakes in a row as max_connect_errors allows."
            }
        }
    }

    /// What to do, the best first; none where a remedy of the cause's own is the right one.
    pub(super) fn remedies(self, is_mariadb: bool) -> Vec<Remedy> {
        let remedy = |statement: &str, why: &str, risk: &str, undo: &str| Remedy {
            statement: statement.into(),
            why: why.into(),
            dynamic: true,
            risk: risk.into(),
            undo: undo.into(),
        };
        let unlock = || {
            let list = match is_mariadb {
                true => {
                    "SELECT user, host FROM mysql.global_priv WHERE JSON_VALUE(priv, '$.account_locked') = 1"
                }
                false => "SELECT user, host FROM mysql.user WHERE account_locked = 'Y'",
            };
            remedy(
                &format!("{list}; then ALTER USER 'NAME'@'HOST' ACCOUNT UNLOCK"),
                "It lists the locked accounts; the next login of one that is unlocked is let in.",
                "An account may be locked on purpose, after a leak or for a move of its clients.",
                "ALTER USER 'NAME'@'HOST' ACCOUNT LOCK",
            )
        };
        match self {
            Self::Offline => vec![remedy(
                "SET GLOBAL offline_mode = OFF",
                "All accounts may log in again. Find out first who set it.",
                "A member that left its group may have old data, and one that is being maintained may be restarted at any time.",
                "SET GLOBAL offline_mode = ON",
            )],
            Self::WithoutTls => vec![
                remedy(
                    "TLS in the clients: ssl-mode=REQUIRED, useSSL=true, or what their driver calls it",
                    "The server demands it, so that passwords and data cannot be read on their way.",
                    "A change of the clients' configuration.",
                    "",
                ),
                remedy(
                    "SET GLOBAL require_secure_transport = OFF",
                    "Clients without TLS may log in at once, until they are changed.",
                    "Passwords and data of such clients can be read on the network.",
                    "SET GLOBAL require_secure_transport = ON",
                ),
            ],
            Self::Locked | Self::LockedByPasswords => vec![unlock()],
            Self::BlockedByPasswords => vec![
                remedy(
                    "FLUSH PRIVILEGES",
                    "It forgets the wrong passwords of all accounts; ALTER USER with the password does so for one account.",
                    "Those who tried passwords may go on: look from where they came. Rights are read again from their tables.",
                    "",
                ),
                unlock(),
            ],
            Self::HostBlocked => Vec::new(),
        }
    }
}

/// How often each error was raised in the window, by its number; nothing where the server does not count them so.
fn raised(window: &Window) -> BTreeMap<u32, f64> {
    let Some(change) = window.change(|s| &s.server.errors) else { return BTreeMap::new() };
    let (Some(first), Some(last)) = (&change.first.by_number, &change.last.by_number) else {
        return BTreeMap::new();
    };
    let before: BTreeMap<u32, u64> = first.iter().map(|error| (error.number, error.raised)).collect();
    let grew = |number, raised: u64| raised.saturating_sub(before.get(&number).copied().unwrap_or(0)) as f64;
    last.iter().map(|error| (error.number, grew(error.number, error.raised))).collect()
}

/// True where one of these numbers was raised for at least so many logins of the window.
pub(super) fn is_raised(window: &Window, numbers: &[u32], least: f64) -> bool {
    let raised = raised(window);
    let count: f64 = numbers.iter().filter_map(|number| raised.get(number)).sum();
    count > 0.0 && count >= least
}

/// Numbers that clients may see where nothing says which it is, beside those that every server has.
pub(super) fn others(window: &Window) -> Vec<&'static str> {
    let limits_passwords = window
        .variable_number("max_password_errors")
        .is_some_and(|most| most > 0.0 && most < f64::from(u32::MAX));
    [
        is_on(window, "require_secure_transport")
            .then_some("3159 (no TLS, which require_secure_transport demands)"),
        limits_passwords
            .then_some("4150 (blocked after max_password_errors wrong passwords: FLUSH PRIVILEGES)"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn is_on(window: &Window, name: &str) -> bool {
    window.variable(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("ON"))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::AccountSummary;

    use super::super::examples::{found, refusing};
    use crate::testing::{Build, answer};

    /// 21 logins a second are refused with this number.
    fn with_number(number: u32) -> Build {
        refusing("9.7.4", 21.0).errors(0.0, &[(number, "ER_OF_LOGIN", 20.0)])
    }

    #[test]
    fn the_number_that_grew_says_why_and_what_to_do() {
        let of = |number| {
            let finding = found(&with_number(number).window()).unwrap();
            let headline = finding.headline.rsplit(": ").next().unwrap().to_owned();
            (headline, finding.remedies[0].statement.clone())
        };
        let cases = [
            (3032, "offline_mode = ON", "SET GLOBAL offline_mode = OFF"),
            (3159, "they come without TLS, which require_secure_transport demands", "TLS in the clients"),
            (3118, "the account is locked", "SELECT user, host FROM mysql.user WHERE account_locked"),
            (3955, "the account is locked after wrong passwords", "SELECT user, host FROM mysql.user"),
            (4150, "the account is blocked after wrong passwords", "FLUSH PRIVILEGES"),
            (1129, "the client's host is blocked", "TRUNCATE TABLE performance_schema.host_cache"),
        ];
        for (number, headline, statement) in cases {
            let (found, first) = of(number);
            assert_eq!(found, headline);
            assert!(first.starts_with(statement), "{number}: {first}");
        }
    }

    #[test]
    fn a_limit_is_said_by_its_number_and_the_account_is_named_of_which_no_login_was_let_in() {
        let account = |user: &str, current, total| AccountSummary {
            user: user.into(),
            host: "localhost".into(),
            current,
            total,
            statements: Some(7),
        };
        let listed = |jobs| {
            let build = with_number(1226).each(move |at_s, server, _| {
                let app = account("app", 60, 340 + at_s as u64);
                let accounts = vec![account("web", 10, 10), app, account("jobs", jobs, 40)];
                server.accounts = answer(at_s, accounts);
            });
            found(&build.window()).unwrap()
        };
        let finding = listed(1);
        let web = ": web@localhost has, most likely, as many connections as it may have";
        assert!(finding.headline.ends_with(web), "{}", finding.headline);
        assert!(finding.remedies[0].statement.starts_with("SELECT user, host, max_user_connections"));
        let statement = &finding.remedies[1].statement;
        assert_eq!(statement, "If it is that one: ALTER USER 'web'@'localhost' WITH MAX_USER_CONNECTIONS 20");
        // A pool that is well makes no connection either: of two nobody knows which it is.
        for unknown in [found(&with_number(1203).window()).unwrap(), listed(4)] {
            assert!(
                unknown.headline.ends_with(": an account has as many connections as it may have"),
                "{}",
                unknown.headline
            );
            let remedies: Vec<&str> = unknown.remedies.iter().map(|one| one.statement.as_str()).collect();
            assert!(!remedies.iter().any(|one| one.contains("ALTER USER")), "{remedies:?}");
            assert!(remedies[0].starts_with("SELECT user, host, max_user_connections"), "{remedies:?}");
            assert!(remedies[1].contains(" has the most, "), "{remedies:?}");
        }
        let denied = found(&with_number(1045).window()).unwrap();
        assert!(denied.headline.ends_with(": access denied"), "{}", denied.headline);
    }

    #[test]
    fn few_of_one_number_are_not_the_reason_of_all() {
        let few = refusing("9.7.4", 21.0).errors(0.0, &[(3118, "ER_ACCOUNT_HAS_BEEN_LOCKED", 2.0)]);
        assert!(!found(&few.window()).unwrap().headline.contains("locked"));
    }

    #[test]
    fn without_numbers_a_variable_says_it_or_what_it_may_be() {
        let offline = found(&refusing("9.7.4", 21.0).variable("offline_mode", "ON").window()).unwrap();
        assert!(offline.headline.ends_with(": offline_mode = ON"), "{}", offline.headline);
        let maria = |most| {
            let build = refusing("11.8.9-MariaDB", 21.0).variable("max_password_errors", most);
            found(&build.window()).unwrap().why
        };
        assert!(maria("3").contains("or 4150 (blocked"), "{}", maria("3"));
        assert!(!maria("4294967295").contains("4150"));
        let tls = refusing("11.8.9-MariaDB", 21.0).variable("require_secure_transport", "ON");
        assert!(found(&tls.window()).unwrap().why.contains("3159"));
    }
}
