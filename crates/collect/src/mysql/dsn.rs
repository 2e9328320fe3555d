//! The two short forms of a connection: Percona Toolkit's DSN and a `mysql://` URL.
//!
//! `h=db17,P=3306,u=app,p=secret,S=/run/mysqld/mysqld.sock,D=shop,F=/root/.my.cnf,A=utf8mb4`
//! `mysql://app:secret@db17:3306/shop?ssl-mode=REQUIRED&socket=/run/mysqld/mysqld.sock`
//!
//! Out: what either says, as a [`Layer`]. No error repeats the text: it may hold a password.

use percent_encoding::percent_decode_str;
use url::Url;

use super::error::ConnectError;
use super::resolve::Layer;

fn bad(reason: impl Into<String>) -> ConnectError {
    ConnectError::BadOption { option: "the DSN or URL".to_owned(), reason: reason.into() }
}

/// Reads either form: a URL has `://`.
pub(crate) fn parse(text: &str) -> Result<Layer, ConnectError> {
    if text.contains("://") { parse_url(text) } else { parse_dsn(text) }
}

/// `h=127.0.0.1,P=12345`; a word without `=` is the host; `\,` is a comma within a value.
fn parse_dsn(text: &str) -> Result<Layer, ConnectError> {
    let mut layer = Layer::default();
    for part in split_at_commas(text) {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        let Some((letter, value)) = part.split_once('=') else {
            // user:password@host, or the form of Go's driver: as a host it would be repeated in an error.
            if part.contains(['@', '/', '(']) {
                let hint = "a word without = is a host name; a URL begins with mysql://".to_owned();
                return Err(bad(hint + &suggestion(part)));
            }
            layer.host = Some(part.to_owned());
            continue;
        };
        let value = value.to_owned();
        match letter.trim() {
            "h" => layer.host = Some(value),
            "P" => layer.set_port(&value, "P in the DSN")?,
            "u" => layer.user = Some(value),
            "p" => layer.password = Some(Some(value.into())),
            "S" => layer.socket = Some(value.into()),
            "D" => layer.database = Some(value),
            "F" => layer.defaults_file = Some(value.into()),
            // Character set, table, LOAD DATA LOCAL, TLS by option file: they mean nothing here.
            "A" | "t" | "L" | "s" => {}
            // The word itself may be a part of a password with a comma in it.
            _ => {
                return Err(bad(
                    "unknown part; known are h, P, u, p, S, D, F, A; a comma within a value is \\,",
                ));
            }
        }
    }
    Ok(layer)
}

/// The URL that was meant by `root@localhost`. Of what may hold a password nothing is repeated.
fn suggestion(text: &str) -> String {
    let is_plain = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
    };
    let Some((user, address)) = text.split_once('@') else {
        return ": mysql://USER@HOST/DATABASE".to_owned();
    };
    let (host, port) = address.split_once(':').unwrap_or((address, "0"));
    match is_plain(user) && is_plain(host) && port.parse::<u16>().is_ok() {
        true => format!("; use mysql://{user}@{address}/"),
        false => ": mysql://USER@HOST/DATABASE".to_owned(),
    }
}

fn split_at_commas(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        match c {
            '\\' if chars.peek() == Some(&',') => {
                chars.next();
                parts[last].push(',');
            }
            ',' => parts.push(String::new()),
            _ => parts[last].push(c),
        }
    }
    parts
}

fn parse_url(text: &str) -> Result<Layer, ConnectError> {
    let url = Url::parse(text).map_err(|error| bad(error.to_string()))?;
    if !matches!(url.scheme(), "mysql" | "mariadb") {
        return Err(bad("a URL begins with mysql://"));
    }
    let decode = |part: &str| {
        let decoded = percent_decode_str(part).decode_utf8();
        decoded.map(std::borrow::Cow::into_owned).map_err(|_| bad("a percent code is not UTF-8"))
    };
    let mut layer = Layer::default();
    if let Some(host) = url.host_str().filter(|host| !host.is_empty()) {
        let host = decode(host)?;
        // mysql://user@%2Frun%2Fmysqld%2Fmysqld.sock names a socket, as in MySQL Shell.
        if host.starts_with('/') {
            layer.socket = Some(host.into());
        } else {
            layer.host = Some(host.trim_matches(['[', ']']).to_owned());
        }
    }
    layer.port = url.port();
    if !url.username().is_empty() {
        layer.user = Some(decode(url.username())?);
    }
    if let Some(password) = url.password() {
        layer.password = Some(Some(decode(password)?.into()));
    }
    let database = decode(url.path().trim_start_matches('/'))?;
    if !database.is_empty() {
        layer.database = Some(database);
    }
    for (key, value) in url.query_pairs() {
        let key = key.replace('_', "-");
        let known = match key.as_str() {
            "sslmode" => layer.set("ssl-mode", Some(&value), "the URL")?,
            "password" | "user" => return Err(bad(format!("{key} belongs before the @"))),
            _ => layer.set(&key, Some(&value), "the URL")?,
        };
        if !known {
            return Err(bad(format!(
                "unknown parameter {key}; known are socket, ssl-mode, ssl-ca, ssl-cert, ssl-key, server-public-key-path, get-server-public-key, trust-unverified-server, connect-timeout"
            )));
        }
    }
    Ok(layer)
}

#[cfg(test)]
mod tests {
    use super::super::secret::Secret;
    use super::super::target::SslMode;
    use super::*;
    use proptest::prelude::*;

    fn password(layer: &Layer) -> Option<&str> {
        layer.password.as_ref()?.as_ref().map(Secret::expose)
    }

    #[test]
    fn what_looks_like_a_login_is_no_host_name() {
        for text in ["app:topsecret@db17", "app:topsecret@tcp(db17:3306)/shop"] {
            let refused = parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains("mysql://") && !refused.contains("topsecret"), "{refused}");
        }
    }

    #[test]
    fn what_was_meant_is_suggested() {
        for (text, meant) in [
            ("root@localhost", "use mysql://root@localhost/"),
            ("app@db17.example.com:3307", "use mysql://app@db17.example.com:3307/"),
        ] {
            let refused = parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains(meant), "{refused}");
            parse(meant.trim_start_matches("use ")).unwrap();
        }
        let refused = parse("app:topsecret@db17").map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("mysql://USER@HOST"), "{refused}");
    }

    #[test]
    fn reads_percona_toolkits_form() {
        let layer = parse(r"h=db17,P=3307,u=app,p=a\,b=c,S=/tmp/s,D=shop,F=/root/x.cnf,A=utf8").unwrap();
        assert_eq!(layer.host.as_deref(), Some("db17"));
        assert_eq!(layer.port, Some(3307));
        assert_eq!(password(&layer), Some("a,b=c"));
        assert_eq!(layer.socket.as_deref(), Some("/tmp/s".as_ref()));
        assert_eq!(layer.defaults_file.as_deref(), Some("/root/x.cnf".as_ref()));
        assert_eq!(parse("db17").unwrap().host.as_deref(), Some("db17"));
    }

    #[test]
    fn reads_a_url_with_percent_codes() {
        let url = "mysql://app%40x:p%3A%2F%25w@[::1]:3307/sh%20op?ssl-mode=verify_ca&ssl-ca=/etc/ca.pem";
        let layer = parse(url).unwrap();
        assert_eq!(layer.user.as_deref(), Some("app@x"));
        assert_eq!(password(&layer), Some("p:/%w"));
        assert_eq!(layer.host.as_deref(), Some("::1"));
        assert_eq!((layer.port, layer.database.as_deref()), (Some(3307), Some("sh op")));
        assert_eq!(layer.ssl_mode, Some(SslMode::VerifyCa));
        let socket = parse("mysql://root@%2Frun%2Fmysqld%2Fmysqld.sock").unwrap();
        assert_eq!(socket.socket.as_deref(), Some("/run/mysqld/mysqld.sock".as_ref()));
        let socket = parse("mysql://root@localhost/?socket=/tmp/my.sock").unwrap();
        assert_eq!(socket.socket.as_deref(), Some("/tmp/my.sock".as_ref()));
    }

    #[test]
    fn no_error_repeats_the_password() {
        for text in [
            "u=app,p=top,secret=1",
            "h=x,P=topsecret",
            "mysql://app:topsecret@host:99999/",
            "postgres://app:topsecret@host/",
            "mysql://app:topsecret@host/?color=red",
            "mysql://app:topsecret@[/",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret=") && !error.contains("app"), "{error}");
            assert!(!error.contains("topsecret") || text.contains("P=topsecret"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            let _ = parse(&text);
            let _ = parse(&format!("mysql://{text}"));
        }
    }
}
