//! Lists of servers: one a line, as a host, `host:port`, socket, DSN or URL, with tags behind it.
//!
//! ```text
//! # comments and empty lines are passed over
//! db17                          role=replica dc=ams
//! db18:3307                     role=source  dc=ams
//! h=db19,P=3306,u=app           dc=fra
//! mysql://app@[2001:db8::1]:3306/
//! /run/mysqld/mysqld.sock       role=local
//! ```

use std::collections::{BTreeMap, HashMap};

use thiserror::Error;

/// A server of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// As it stands in the list: how to get there. May hold a password, so it is never shown.
    pub address: Address,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// How a list names a server.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host, with a port or the usual one.
    Host {
        /// Name or address, without brackets.
        host: String,
        /// The port; None for the usual one.
        port: Option<u16>,
    },
    /// A unix socket.
    Socket(String),
    /// A DSN or a URL.
    Dsn(String),
}

impl std::fmt::Debug for Address {
    /// The address without what may be a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host { host, port } => write!(f, "Host({host}, {port:?})"),
            Self::Socket(path) => write!(f, "Socket({path})"),
            Self::Dsn(_) => f.write_str("Dsn(***)"),
        }
    }
}

impl Address {
    /// A host with its port.
    pub fn of_host(host: &str, port: u16) -> Self {
        Self::Host { host: host.to_owned(), port: Some(port) }
    }
}

/// What is wrong with a list. The line's text is not repeated: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line} of the list of servers: {what}")]
pub struct BadList {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub what: &'static str,
}

/// The servers of a list, in its order. A server that is named twice is asked once, with the tags of both lines.
pub fn parse(text: &str) -> Result<Vec<Listed>, BadList> {
    let mut listed: Vec<Listed> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |what| BadList { line: at + 1, what };
        let line = line.trim().trim_start_matches('\u{feff}');
        let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
        let Some(first) = words.next() else { continue };
        let address = address(first).map_err(wrong)?;
        let mut tags = BTreeMap::new();
        for word in words {
            let tag = word.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, value) =
                tag.ok_or_else(|| wrong("behind the server stand tags: role=replica dc=ams"))?;
            tags.insert(name.to_owned(), value.to_owned());
        }
        listed.push(Listed { address, tags });
    }
    Ok(without_twins(listed))
}

/// Each server once.
pub fn without_twins(listed: Vec<Listed>) -> Vec<Listed> {
    let mut places: HashMap<Address, usize> = HashMap::with_capacity(listed.len());
    let mut once: Vec<Listed> = Vec::with_capacity(listed.len());
    for server in listed {
        match places.get(&server.address) {
            Some(&place) => once[place].tags.extend(server.tags),
            None => {
                places.insert(server.address.clone(), once.len());
                once.push(server);
            }
        }
    }
    once
}

fn address(word: &str) -> Result<Address, &'static str> {
    if word.contains("://") || word.contains('=') {
        return Ok(Address::Dsn(word.to_owned()));
    }
    if word.starts_with('/') {
        return Ok(Address::Socket(word.to_owned()));
    }
    if word.contains(['@', '(', '/']) {
        return Err("a login before the host needs the form mysql://user@host:port/");
    }
    const PORT: &str = "a port is a number from 1 to 65535";
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0).ok_or(PORT);
    if let Some(rest) = word.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("an address in brackets needs the closing one")?;
        let port = match rest.strip_prefix(':') {
            Some(text) => Some(port(text)?),
            None if rest.is_empty() => None,
            None => return Err("behind the closing bracket stands a colon and the port"),
        };
        return Ok(Address::Host { host: host.to_owned(), port });
    }
    Ok(match word.split_once(':') {
        // An IPv6 address without brackets has no port.
        Some((_, rest)) if rest.contains(':') => Address::Host { host: word.to_owned(), port: None },
        Some(("", _)) => return Err("a host stands before the colon"),
        Some((host, text)) => Address::Host { host: host.to_owned(), port: Some(port(text)?) },
        None => Address::Host { host: word.to_owned(), port: None },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(host: &str, port: Option<u16>) -> Address {
        Address::Host { host: host.to_owned(), port }
    }

    #[test]
    fn a_line_is_a_server_and_its_tags() {
        let listed = parse(
            "# all of them\n\ndb17 role=replica dc=ams # old\n  db18:3307\n[::1]:3308 a=\n::1\n/run/m.sock\n\
             h=db19,u=app,p=x dc=fra\nmysql://app:secret@db20/\n",
        )
        .unwrap();
        let addresses: Vec<Address> = listed.iter().map(|server| server.address.clone()).collect();
        assert_eq!(
            addresses,
            [
                host("db17", None),
                host("db18", Some(3307)),
                host("::1", Some(3308)),
                host("::1", None),
                Address::Socket("/run/m.sock".to_owned()),
                Address::Dsn("h=db19,u=app,p=x".to_owned()),
                Address::Dsn("mysql://app:secret@db20/".to_owned()),
            ]
        );
        let tags = |at: usize| listed[at].tags.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>();
        assert_eq!(tags(0), ["dc=ams", "role=replica"]);
        assert_eq!(tags(2), ["a="]);
        assert!(!format!("{listed:?}").contains("secret"));
    }

    #[test]
    fn a_server_that_is_named_twice_is_asked_once() {
        let listed = parse("db1 dc=ams\ndb2\ndb1 dc=fra role=source\n").unwrap();
        assert_eq!(listed.len(), 2);
        assert_eq!(
            listed[0].tags,
            BTreeMap::from([("dc".into(), "fra".into()), ("role".into(), "source".into())])
        );
    }

    #[test]
    fn what_is_wrong_is_shown_with_its_line_and_without_its_text() {
        for (text, part) in [
            ("db1\nroot:hunter2@db2", "mysql://"),
            ("db1\ndb2:hunter2", "a port is"),
            ("db1\ndb2 hunter2", "tags"),
            ("db1\n[::1", "bracket"),
            ("db1\n:3306", "host"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("line 2 ") && error.contains(part), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_refused(text in "\\PC{0,80}") {
            let _ = parse(&text);
        }
    }
}
