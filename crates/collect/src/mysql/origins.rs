//! Where each value of a connection comes from, in the order that [`mod@super::resolve`] has.

use std::path::Path;
use std::time::Duration;

use super::environment::Environment;
use super::error::ConnectError;
use super::option_file::Setting;
use super::resolve::{ConnectFlags, Layer, Layers, Protocol, query_timeout, resolve};

/// What said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag.
    Flag,
    /// The DSN or URL.
    Target,
    /// The program's configuration files.
    Configured,
    /// An option file or the login path file.
    OptionFile {
        /// `/etc/my.cnf line 12`
        place: String,
        /// The group, in lower case: `client`.
        group: String,
    },
    /// This variable of the environment.
    Environment(&'static str),
    /// Nothing: it is the default.
    Default,
}

/// One value of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Its name, as the flag has it without `--`; `database`, `protocol` and `enable-cleartext-plugin` have no flag.
    pub name: &'static str,
    /// The value as text, a password as `***`; None where there is none, and the server or the system decides.
    pub shown: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
}

/// The name of a value, what a layer says of it, and the variable of the environment that may say it.
type Field = (&'static str, fn(&Layer) -> Option<String>, &'static str);

const FIELDS: [Field; 16] = [
    ("host", |layer| layer.host.clone(), "MYSQL_HOST"),
    ("port", |layer| layer.port.map(|port| port.to_string()), "MYSQL_TCP_PORT"),
    ("socket", |layer| layer.socket.as_deref().map(path), "MYSQL_UNIX_PORT"),
    ("user", |layer| layer.user.clone(), ""),
    (
        "password",
        |layer| {
            layer.password.as_ref().map(|text| if text.is_some() { "***" } else { "asked for" }.to_owned())
        },
        "MYSQL_PWD",
    ),
    ("database", |layer| layer.database.clone(), ""),
    (
        "protocol",
        |layer| layer.protocol.map(|is| if is == Protocol::Tcp { "TCP" } else { "SOCKET" }.to_owned()),
        "",
    ),
    ("ssl-mode", |layer| layer.ssl_mode.map(|mode| mode.name().to_owned()), ""),
    ("ssl-ca", |layer| layer.ssl_ca.as_deref().map(path), ""),
    ("ssl-cert", |layer| layer.ssl_cert.as_deref().map(path), ""),
    ("ssl-key", |layer| layer.ssl_key.as_deref().map(path), ""),
    ("server-public-key-path", |layer| layer.server_public_key.as_deref().map(path), ""),
    ("get-server-public-key", |layer| layer.get_server_public_key.map(|is| is.to_string()), ""),
    ("trust-unverified-server", |layer| layer.trust_unverified_server.map(|is| is.to_string()), ""),
    ("enable-cleartext-plugin", |layer| layer.cleartext.map(|is| is.to_string()), ""),
    ("connect-timeout", |layer| layer.connect_timeout.map(seconds), ""),
];

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}

/// The value that an option of an option file sets, by the name that it has here.
fn field_of(key: &str) -> &str {
    match key {
        "password1" => "password",
        "ssl" | "skip-ssl" | "disable-ssl" | "ssl-verify-server-cert" => "ssl-mode",
        other => other,
    }
}

/// What a connection is made of, each value with its origin. Reads the option files; connects to nothing.
///
/// # Errors
/// As [`resolve`]: an option file that is named cannot be read, or a value means nothing.
pub fn origins(flags: &ConnectFlags, environment: &Environment) -> Result<Vec<Value>, ConnectError> {
    let target = resolve(flags, environment)?;
    let layers = Layers::read(flags, environment)?;
    let mut values = Vec::new();
    for (name, of_layer, variable) in FIELDS {
        let by_file = || of_files(&layers.settings, name, of_layer);
        let configured = || of_layer(&layers.configured).map(|shown| (shown, Origin::Configured));
        let stored = if layers.named { by_file().or_else(configured) } else { configured().or_else(by_file) };
        let found = of_layer(&layers.flags)
            .map(|shown| (shown, Origin::Flag))
            .or_else(|| of_layer(&layers.target).map(|shown| (shown, Origin::Target)))
            .or(stored)
            .or_else(|| of_layer(&layers.environment).map(|shown| (shown, Origin::Environment(variable))));
        let (shown, origin) = found.map_or((None, Origin::Default), |(shown, from)| (Some(shown), from));
        let default = || match name {
            "user" => Some(target.user.clone()),
            "ssl-mode" => Some(target.tls.mode.name().to_owned()),
            "connect-timeout" => Some(seconds(target.limits.connect)),
            _ => None,
        };
        values.push(Value { name, shown: shown.or_else(default), origin });
    }
    let origin = match query_timeout(flags, environment) {
        Some(_) if flags.query_timeout.is_some() => Origin::Flag,
        Some(_) => Origin::Configured,
        None => Origin::Default,
    };
    values.push(Value { name: "query-timeout", shown: Some(seconds(target.limits.query)), origin });
    Ok(values)
}

/// What the last setting of this value says; one that takes it back says nothing.
fn of_files(
    settings: &[Setting],
    name: &str,
    of_layer: fn(&Layer) -> Option<String>,
) -> Option<(String, Origin)> {
    settings.iter().rev().find_map(|setting| {
        let key = setting.key.strip_prefix("loose-").unwrap_or(&setting.key);
        let mut layer = Layer::default();
        let is_set = field_of(key) == name
            && layer.set(key, setting.value.as_deref(), &setting.origin).is_ok_and(|known| known);
        is_set.then(|| {
            let origin = Origin::OptionFile { place: setting.origin.clone(), group: setting.group.clone() };
            of_layer(&layer).map(|shown| (shown, origin))
        })
    })?
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_value_is_the_one_that_counts_with_where_it_stands() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        let text = "[client]\nuser = 1\nport=3307\npassword=secret\nskip-ssl\n[spindoctor]\nuser=2\nloose-ssl_mode=no\n";
        let file = root.path().join("etc/my.cnf");
        fs::write(&file, text).unwrap();
        let environment = Environment {
            root: root.path().to_owned(),
            login_name: Some("me".to_owned()),
            mysql_host: Some("of.environment".to_owned()),
            mysql_pwd: Some("env".into()),
            configured: ConnectFlags {
                port: Some(3308),
                connect_timeout: Some(Duration::from_millis(1_500)),
                query_timeout: Some(Duration::from_secs(9)),
                ..ConnectFlags::default()
            },
            ..Environment::default()
        };
        let of_flags = |flags: &ConnectFlags| {
            let values = origins(flags, &environment).unwrap();
            move |name: &str| {
                let value = values.iter().find(|value| value.name == name).unwrap();
                (value.shown.clone().unwrap_or_default(), value.origin.clone())
            }
        };
        let in_file = |line: u32, group: &str| Origin::OptionFile {
            place: format!("{} line {line}", file.display()),
            group: group.to_owned(),
        };
        let value = of_flags(&ConnectFlags::default());
        assert_eq!(value("user"), ("2".to_owned(), in_file(7, "spindoctor")));
        assert_eq!(value("port"), ("3308".to_owned(), Origin::Configured));
        assert_eq!(value("password"), ("***".to_owned(), in_file(4, "client")));
        assert_eq!(value("ssl-mode"), ("DISABLED".to_owned(), in_file(5, "client")));
        assert_eq!(value("host"), ("of.environment".to_owned(), Origin::Environment("MYSQL_HOST")));
        assert_eq!(value("connect-timeout"), ("1.5s".to_owned(), Origin::Configured));
        assert_eq!(value("query-timeout"), ("9s".to_owned(), Origin::Configured));
        assert_eq!(value("socket"), (String::new(), Origin::Default));

        let flags = ConnectFlags {
            dsn: Some("mysql://app:other@db17/".into()),
            defaults_group_suffix: Some("_x".to_owned()),
            query_timeout: Some(Duration::from_secs(1)),
            ..ConnectFlags::default()
        };
        let value = of_flags(&flags);
        assert_eq!(value("user"), ("app".to_owned(), Origin::Target));
        assert_eq!(value("password"), ("***".to_owned(), Origin::Target));
        assert_eq!(
            value("port"),
            ("3307".to_owned(), in_file(3, "client")),
            "files that a flag names count first"
        );
        assert_eq!(value("query-timeout"), ("1s".to_owned(), Origin::Flag));

        let flags = ConnectFlags {
            user: Some("flag".to_owned()),
            password: Some(None),
            no_defaults: true,
            ..ConnectFlags::default()
        };
        let value = of_flags(&flags);
        assert_eq!(value("user"), ("flag".to_owned(), Origin::Flag));
        assert_eq!(value("password"), ("asked for".to_owned(), Origin::Flag));
        assert_eq!(value("ssl-mode"), ("PREFERRED".to_owned(), Origin::Default));
    }

    #[test]
    fn what_nothing_says_is_a_default() {
        let root = tempfile::tempdir().unwrap();
        let environment = Environment { root: root.path().to_owned(), ..Environment::default() };
        let values = origins(&ConnectFlags::default(), &environment).unwrap();
        assert!(values.iter().all(|value| value.origin == Origin::Default), "{values:?}");
        let names: Vec<&str> = values.iter().map(|value| value.name).collect();
        assert_eq!(names.len(), FIELDS.len() + 1);
        assert!(FIELDS.iter().all(|(_, of_layer, _)| of_layer(&Layer::default()).is_none()));
    }
}
