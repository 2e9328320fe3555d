//! The server and account to connect to, put together as MySQL's clients do.
//!
//! In: [`ConnectFlags`] (the command line) and an [`Environment`] (variables, folders). Out: a
//! [`Target`]. What counts, from strongest to weakest: a flag; the DSN or URL; `.mylogin.cnf`; the
//! option files, a later one before an earlier one; `MYSQL_HOST`, `MYSQL_TCP_PORT`,
//! `MYSQL_UNIX_PORT`, `MYSQL_PWD`; the default. Nothing but the option files is read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::environment::Environment;
use super::error::ConnectError;
use super::logins::Logins;
use super::option_file::{Reader, Setting, Settings};
use super::secret::Secret;
use super::session::Limits;
use super::target::{Endpoint, SslMode, Target, Tls, Trust};
use super::{dsn, login_path};

/// MySQL's port (IANA, and mysql_com.h).
const DEFAULT_PORT: u16 = 3306;

/// Where servers put their sockets: Debian, Red Hat, a build from source. The first that exists is taken.
const DEFAULT_SOCKETS: [&str; 4] = [
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
    "/tmp/mysql.sock",
];

/// Groups that every MySQL client reads, those that MariaDB's read besides, and the tool's own.
const GROUPS: [&str; 4] = ["client", "client-server", "client-mariadb", OWN_GROUP];

/// The tool's own group: an option there that is not known is worth a note.
const OWN_GROUP: &str = "spindoctor";

/// What the command line said; the program fills it from its flags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectFlags {
    /// `-h`
    pub host: Option<String>,
    /// `-P`
    pub port: Option<u16>,
    /// `-S`
    pub socket: Option<PathBuf>,
    /// `-u`
    pub user: Option<String>,
    /// `-p`: `Some(None)` without a value, which asks for it.
    pub password: Option<Option<Secret>>,
    /// `-D`
    pub database: Option<String>,
    /// `--defaults-file`: this option file and no other.
    pub defaults_file: Option<PathBuf>,
    /// `--defaults-extra-file`: read after the global ones, before the user's own.
    pub defaults_extra_file: Option<PathBuf>,
    /// `--defaults-group-suffix`: `[client_x]` is read with `[client]`.
    pub defaults_group_suffix: Option<String>,
    /// `--no-defaults`: no option file but `.mylogin.cnf`.
    pub no_defaults: bool,
    /// `--login-path`
    pub login_path: Option<String>,
    /// `--ssl-mode`
    pub ssl_mode: Option<SslMode>,
    /// `--ssl-ca`
    pub ssl_ca: Option<PathBuf>,
    /// `--ssl-cert`
    pub ssl_cert: Option<PathBuf>,
    /// `--ssl-key`
    pub ssl_key: Option<PathBuf>,
    /// `--server-public-key-path`
    pub server_public_key_path: Option<PathBuf>,
    /// `--get-server-public-key`
    pub get_server_public_key: bool,
    /// `--trust-unverified-server`
    pub trust_unverified_server: bool,
    /// A DSN (`h=db17,u=app`) or a URL (`mysql://app@db17`); secret, for it may hold a password.
    pub dsn: Option<Secret>,
    /// `--connect-timeout`
    pub connect_timeout: Option<Duration>,
    /// `--query-timeout`
    pub query_timeout: Option<Duration>,
}

/// One layer of settings: what is None is left to the layer below.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Layer {
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) user: Option<String>,
    /// `Some(None)` asks for it.
    pub(crate) password: Option<Option<Secret>>,
    pub(crate) database: Option<String>,
    pub(crate) defaults_file: Option<PathBuf>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) ssl_mode: Option<SslMode>,
    pub(crate) ssl_ca: Option<PathBuf>,
    pub(crate) ssl_cert: Option<PathBuf>,
    pub(crate) ssl_key: Option<PathBuf>,
    pub(crate) server_public_key: Option<PathBuf>,
    pub(crate) get_server_public_key: Option<bool>,
    pub(crate) trust_unverified_server: Option<bool>,
    pub(crate) cleartext: Option<bool>,
    pub(crate) connect_timeout: Option<Duration>,
}

/// `--protocol`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Socket,
}

impl Layer {
    /// Takes one option by its long name (`-`, not `_`); false where it says nothing about connecting.
    pub(crate) fn set(&mut self, key: &str, value: Option<&str>, origin: &str) -> Result<bool, ConnectError> {
        let bad = |reason: String| ConnectError::BadOption { option: format!("{key} in {origin}"), reason };
        let text = || value.map(str::to_owned);
        let path = || value.filter(|path| !path.is_empty()).map(PathBuf::from);
        match key {
            "host" => self.host = text(),
            "port" => self.set_port(value.unwrap_or_default(), &format!("port in {origin}"))?,
            "socket" => self.socket = path(),
            "user" => self.user = text(),
            // password1 is its name beside password2 and password3 (MySQL 8.0.27).
            "password" | "password1" => self.password = Some(value.map(Secret::from)),
            "database" => self.database = text(),
            "protocol" => {
                self.protocol = match value.unwrap_or_default().to_ascii_lowercase().as_str() {
                    "tcp" => Some(Protocol::Tcp),
                    "socket" => Some(Protocol::Socket),
                    "" | "default" => None,
                    _ => return Err(bad("it is TCP or SOCKET".to_owned())),
                }
            }
            "ssl-mode" => self.ssl_mode = Some(value.unwrap_or_default().parse().map_err(bad)?),
            // MariaDB's clients, and MySQL's before 8.0.
            "ssl" => self.ssl_mode = Some(if is_on(value) { SslMode::Required } else { SslMode::Disabled }),
            "skip-ssl" | "disable-ssl" => self.ssl_mode = Some(SslMode::Disabled),
            "ssl-verify-server-cert" if is_on(value) => self.ssl_mode = Some(SslMode::VerifyIdentity),
            "ssl-ca" => self.ssl_ca = path(),
            "ssl-cert" => self.ssl_cert = path(),
            "ssl-key" => self.ssl_key = path(),
            "server-public-key-path" => self.server_public_key = path(),
            "get-server-public-key" => self.get_server_public_key = Some(is_on(value)),
            "trust-unverified-server" => self.trust_unverified_server = Some(is_on(value)),
            "enable-cleartext-plugin" => self.cleartext = Some(is_on(value)),
            "connect-timeout" => {
                let seconds =
                    value.unwrap_or_default().parse().map_err(|_| bad("it is in seconds".to_owned()))?;
                self.connect_timeout = Some(Duration::from_secs(seconds));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes a port; 0 and nothing mean the default, as in MySQL.
    pub(crate) fn set_port(&mut self, text: &str, option: &str) -> Result<(), ConnectError> {
        // The text is not repeated: it may be a password that slipped.
        let port: u16 = text.trim().parse().map_err(|_| ConnectError::BadOption {
            option: option.to_owned(),
            reason: "a port is a number from 1 to 65535".to_owned(),
        })?;
        self.port = (port != 0).then_some(port);
        Ok(())
    }

    /// This layer where it says something, the weaker one elsewhere.
    fn over(self, weaker: Self) -> Self {
        Self {
            host: self.host.or(weaker.host),
            port: self.port.or(weaker.port),
            socket: self.socket.or(weaker.socket),
            user: self.user.or(weaker.user),
            password: self.password.or(weaker.password),
            database: self.database.or(weaker.database),
            defaults_file: self.defaults_file.or(weaker.defaults_file),
            protocol: self.protocol.or(weaker.protocol),
            ssl_mode: self.ssl_mode.or(weaker.ssl_mode),
            ssl_ca: self.ssl_ca.or(weaker.ssl_ca),
            ssl_cert: self.ssl_cert.or(weaker.ssl_cert),
            ssl_key: self.ssl_key.or(weaker.ssl_key),
            server_public_key: self.server_public_key.or(weaker.server_public_key),
            get_server_public_key: self.get_server_public_key.or(weaker.get_server_public_key),
            trust_unverified_server: self.trust_unverified_server.or(weaker.trust_unverified_server),
            cleartext: self.cleartext.or(weaker.cleartext),
            connect_timeout: self.connect_timeout.or(weaker.connect_timeout),
        }
    }
}

fn is_on(value: Option<&str>) -> bool {
    !value.is_some_and(|value| ["0", "off", "false"].contains(&value.to_ascii_lowercase().as_str()))
}

/// Puts together whom to connect to. Reads the option files; connects to nothing.
pub fn resolve(flags: &ConnectFlags, environment: &Environment) -> Result<Target, ConnectError> {
    let given = command_line(flags)?;
    let explicit_port = given.port.is_some();
    // What is given with a port or host on the command line does not mean the option file's socket.
    let explicit_socket = given.socket.is_some();
    let Settings { settings, mut notes } = read_option_files(flags, &given, environment)?;
    let from_files = settings_layer(&settings, &mut notes)?;
    let all = given.over(from_files).over(environment_layer(environment, &mut notes));

    let mode = all.ssl_mode.unwrap_or(if all.ssl_ca.is_some() {
        SslMode::VerifyCa // include/sslopt-case.h: --ssl-ca without --ssl-mode means VERIFY_CA
    } else {
        SslMode::Preferred
    });
    if all.ssl_cert.is_some() != all.ssl_key.is_some() {
        return Err(ConnectError::BadOption {
            option: "--ssl-cert and --ssl-key".to_owned(),
            reason: "each needs the other".to_owned(),
        });
    }
    let host = all.host.clone().filter(|host| !host.is_empty());
    let is_localhost = host.as_ref().is_none_or(|host| host.eq_ignore_ascii_case("localhost"));
    let wants_tcp = match all.protocol {
        Some(protocol) => protocol == Protocol::Tcp,
        // MariaDB's rule since 10.6.1 (a port on the command line asks for TCP): MySQL's clients
        // would go to the default socket, which may well be another server.
        None => !is_localhost || (explicit_port && !explicit_socket),
    };
    let endpoint = if wants_tcp {
        let host = host.unwrap_or_else(|| "localhost".to_owned());
        Endpoint::Tcp { host, port: all.port.unwrap_or(DEFAULT_PORT) }
    } else {
        let socket = all.socket.filter(|path| !path.as_os_str().is_empty());
        Endpoint::Socket(socket.unwrap_or_else(|| default_socket(&environment.root)))
    };
    let user = all.user.or_else(|| environment.login_name.clone()).unwrap_or_else(|| "root".to_owned());
    let default = Limits::default();
    let limits = Limits {
        connect: all.connect_timeout.filter(|limit| !limit.is_zero()).unwrap_or(default.connect),
        query: flags.query_timeout.filter(|limit| !limit.is_zero()).unwrap_or(default.query),
    };
    Ok(Target {
        endpoint,
        user,
        logins: Logins::default(),
        ask_password: all.password == Some(None),
        password: all.password.flatten(),
        database: all.database.filter(|name| !name.is_empty()),
        tls: Tls { mode, ca: all.ssl_ca, cert: all.ssl_cert, key: all.ssl_key },
        trust: Trust {
            server_public_key: all.server_public_key,
            get_server_public_key: all.get_server_public_key.unwrap_or(false),
            unverified_server: all.trust_unverified_server.unwrap_or(false),
        },
        cleartext: all.cleartext.unwrap_or(false),
        limits,
        notes,
    })
}

/// The flags over the DSN.
fn command_line(flags: &ConnectFlags) -> Result<Layer, ConnectError> {
    let short = flags.dsn.as_ref().map(|text| dsn::parse(text.expose())).transpose()?.unwrap_or_default();
    let flags = Layer {
        host: flags.host.clone(),
        port: flags.port,
        socket: flags.socket.clone(),
        user: flags.user.clone(),
        password: flags.password.clone(),
        database: flags.database.clone(),
        defaults_file: flags.defaults_file.clone(),
        ssl_mode: flags.ssl_mode,
        ssl_ca: flags.ssl_ca.clone(),
        ssl_cert: flags.ssl_cert.clone(),
        ssl_key: flags.ssl_key.clone(),
        server_public_key: flags.server_public_key_path.clone(),
        get_server_public_key: flags.get_server_public_key.then_some(true),
        trust_unverified_server: flags.trust_unverified_server.then_some(true),
        connect_timeout: flags.connect_timeout,
        ..Layer::default()
    };
    Ok(flags.over(short))
}

/// `/etc/my.cnf`, `/etc/mysql/my.cnf`, `/usr/etc/my.cnf`, `$MYSQL_HOME/my.cnf`, the extra file,
/// `~/.my.cnf` (mysys/my_default.cc, `init_default_directories`); `~/.mylogin.cnf` last and always.
fn read_option_files(
    flags: &ConnectFlags,
    given: &Layer,
    environment: &Environment,
) -> Result<Settings, ConnectError> {
    let suffix = flags.defaults_group_suffix.as_ref().or(environment.group_suffix.as_ref());
    let with_suffix = |names: &[&str]| -> Vec<String> {
        let plain = names.iter().map(|&name| name.to_owned());
        let suffixed = names.iter().filter_map(|name| suffix.map(|suffix| format!("{name}{suffix}")));
        plain.chain(suffixed).map(|name| name.to_ascii_lowercase()).collect()
    };
    let groups = with_suffix(&GROUPS);
    let mut reader = Reader::new(&groups, &environment.root);
    let must = |reader: &mut Reader<'_>, path: &Path| {
        reader
            .read(path)
            .map_err(|error| ConnectError::OptionFile { path: path.to_path_buf(), reason: error.to_string() })
    };
    if let Some(only) = &given.defaults_file {
        must(&mut reader, only)?;
    } else if !flags.no_defaults {
        for folder in ["etc", "etc/mysql", "usr/etc"] {
            reader.read_if_there(&environment.root.join(folder).join("my.cnf"));
        }
        if let Some(home) = &environment.mysql_home {
            reader.read_if_there(&home.join("my.cnf"));
        }
        if let Some(extra) = &flags.defaults_extra_file {
            must(&mut reader, extra)?;
        }
        if let Some(home) = &environment.home {
            reader.read_if_there(&home.join(".my.cnf"));
        }
    }
    let mut found = reader.finish();

    let default = environment.home.as_ref().map(|home| home.join(".mylogin.cnf"));
    if let Some(path) = environment.login_file.clone().or(default) {
        let mut names = GROUPS.to_vec();
        names.extend(flags.login_path.as_deref());
        let groups = with_suffix(&names);
        match login_path::read(&path) {
            Ok(Some(text)) => {
                let mut reader = Reader::new(&groups, &environment.root);
                reader.take(&path, &text);
                let login = reader.finish();
                found.settings.extend(login.settings);
                found.notes.extend(login.notes);
            }
            Ok(None) => {}
            Err(note) => found.notes.push(note),
        }
    }
    Ok(found)
}

/// Options of files, later ones winning. One that is not known is left to other programs.
fn settings_layer(settings: &[Setting], notes: &mut Vec<String>) -> Result<Layer, ConnectError> {
    let mut layer = Layer::default();
    for setting in settings {
        let (key, loose) = match setting.key.strip_prefix("loose-") {
            Some(key) => (key, true),
            None => (setting.key.as_str(), false),
        };
        match layer.set(key, setting.value.as_deref(), &setting.origin) {
            Ok(false) if setting.group.starts_with(OWN_GROUP) && !loose => {
                notes.push(format!("{}: unknown option {key}", setting.origin));
            }
            Err(error) if loose => notes.push(error.to_string()),
            outcome => drop(outcome?),
        }
    }
    Ok(layer)
}

/// MySQL's clients take these where nothing else says anything.
fn environment_layer(environment: &Environment, notes: &mut Vec<String>) -> Layer {
    let mut layer = Layer {
        host: environment.mysql_host.clone(),
        socket: environment.mysql_unix_port.clone(),
        password: environment.mysql_pwd.clone().map(Some),
        ..Layer::default()
    };
    if let Some(port) = &environment.mysql_tcp_port
        && let Err(error) = layer.set_port(port, "MYSQL_TCP_PORT")
    {
        notes.push(error.to_string());
    }
    layer
}

/// The first default socket that exists; or the first whose folder may not be looked into, where it may be; or the first of
/// all, for the error to name.
fn default_socket(root: &Path) -> PathBuf {
    let all = DEFAULT_SOCKETS.map(|path| root.join(path.trim_start_matches('/')));
    let is_hidden = |path: &&PathBuf| {
        std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    all.iter().find(|path| path.exists()).or_else(|| all.iter().find(is_hidden)).unwrap_or(&all[0]).clone()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// An empty host with a home.
    struct Host {
        root: tempfile::TempDir,
    }

    impl Host {
        fn new() -> Self {
            Self { root: tempfile::tempdir().unwrap() }
        }

        fn write(&self, path: &str, text: impl AsRef<[u8]>, mode: u32) -> PathBuf {
            let path = self.root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn environment(&self) -> Environment {
            Environment {
                home: Some(self.root.path().join("home")),
                login_name: Some("me".to_owned()),
                root: self.root.path().to_path_buf(),
                ..Environment::default()
            }
        }

        fn resolve(&self, flags: &ConnectFlags) -> Target {
            resolve(flags, &self.environment()).unwrap()
        }
    }

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn without_anything_it_is_the_login_name_at_the_first_socket_that_exists() {
        let host = Host::new();
        let target = host.resolve(&ConnectFlags::default());
        assert_eq!(target.user, "me");
        assert_eq!(target.endpoint, Endpoint::Socket(host.root.path().join("run/mysqld/mysqld.sock")));
        assert_eq!(target.tls.mode, SslMode::Preferred);
        assert!(target.password.is_none() && !target.needs_password());
        let there = host.write("tmp/mysql.sock", "", 0o600);
        assert_eq!(host.resolve(&ConnectFlags::default()).endpoint, Endpoint::Socket(there));
    }

    #[test]
    fn an_empty_socket_is_the_default_socket() {
        let host = Host::new();
        let flags = ConnectFlags { dsn: Some("S=".into()), ..ConnectFlags::default() };
        let default = Endpoint::Socket(host.root.path().join("run/mysqld/mysqld.sock"));
        assert_eq!(host.resolve(&flags).endpoint, default);
    }

    #[test]
    fn later_files_win_and_the_login_path_wins_over_them() {
        let host = Host::new();
        host.write("etc/my.cnf", "[client]\nuser=1\nport=1\nhost=h1\npassword=p1\nsocket=/s1\n", 0o644);
        host.write("etc/mysql/my.cnf", "[client]\nuser=2\nport=2\nhost=h2\npassword=p2\n", 0o644);
        let extra = host.write("extra.cnf", "[spindoctor]\nuser=3\nport=3\nhost=h3\n", 0o600);
        host.write("home/.my.cnf", "[client]\nuser=4\nport=4\n", 0o600);
        let login = "[client]\nuser = \"5\"\n[db17]\nuser = \"6\"\npassword = \"p#6\"\n";
        let login = login_path::tests::encode(login, *b"abcdefghijklmnopqrst");
        host.write("home/.mylogin.cnf", login, 0o600);

        let mut flags = ConnectFlags { defaults_extra_file: Some(extra), ..ConnectFlags::default() };
        let target = host.resolve(&flags);
        assert_eq!((target.user.as_str(), &target.endpoint), ("5", &tcp("h3", 4)));
        assert_eq!(target.password, Some("p2".into()));
        flags.login_path = Some("db17".to_owned());
        let target = host.resolve(&flags);
        assert_eq!((target.user.as_str(), target.password), ("6", Some("p#6".into())));
        flags.user = Some("7".to_owned());
        assert_eq!(host.resolve(&flags).user, "7");
        flags.no_defaults = true;
        let target = host.resolve(&flags);
        assert!(matches!(target.endpoint, Endpoint::Socket(_)));
        assert_eq!(target.password, Some("p#6".into()), "the login path is read all the same");
    }

    #[test]
    fn a_defaults_file_is_read_alone_and_must_be_there() {
        let host = Host::new();
        host.write("etc/my.cnf", "[client]\nuser=1\nport=1\n", 0o644);
        let only = host.write("only.cnf", "[client]\nuser=2\n", 0o600);
        let flags = ConnectFlags { defaults_file: Some(only), ..ConnectFlags::default() };
        assert_eq!(host.resolve(&flags).user, "2");
        let absent = ConnectFlags { defaults_file: Some("/no/such.cnf".into()), ..ConnectFlags::default() };
        let error = resolve(&absent, &host.environment()).unwrap_err();
        assert!(error.to_string().contains("/no/such.cnf"), "{error}");
    }

    #[test]
    fn groups_have_suffixes_and_mariadbs_are_read() {
        let host = Host::new();
        host.write(
            "etc/my.cnf",
            "[client-server]\nsocket=/s\n[client-mariadb]\nuser=m\n[client_x]\nuser=x\n[mysqld]\nuser=mysql\n",
            0o644,
        );
        let target = host.resolve(&ConnectFlags::default());
        assert_eq!((target.user.as_str(), target.endpoint), ("m", Endpoint::Socket("/s".into())));
        let flags = ConnectFlags { defaults_group_suffix: Some("_X".to_owned()), ..ConnectFlags::default() };
        assert_eq!(host.resolve(&flags).user, "x");
        let environment = Environment { group_suffix: Some("_x".to_owned()), ..host.environment() };
        assert_eq!(resolve(&ConnectFlags::default(), &environment).unwrap().user, "x");
    }

    #[test]
    fn mysql_pwd_counts_only_where_no_other_password_is_given() {
        let host = Host::new();
        let environment = Environment { mysql_pwd: Some("env".into()), ..host.environment() };
        let password = |flags: &ConnectFlags| resolve(flags, &environment).unwrap().password;
        assert_eq!(password(&ConnectFlags::default()), Some("env".into()));
        host.write("etc/my.cnf", "[client]\npassword=file\n", 0o644);
        assert_eq!(password(&ConnectFlags::default()), Some("file".into()));
        let dsn = ConnectFlags { dsn: Some("p=dsn".into()), ..ConnectFlags::default() };
        assert_eq!(password(&dsn), Some("dsn".into()));
        let flag = ConnectFlags { password: Some(Some("flag".into())), ..dsn };
        assert_eq!(password(&flag), Some("flag".into()));
    }

    #[test]
    fn a_password_flag_without_a_value_asks_for_it_even_when_a_file_has_one() {
        let host = Host::new();
        host.write("etc/my.cnf", "[client]\npassword=file\n", 0o644);
        let target = host.resolve(&ConnectFlags { password: Some(None), ..ConnectFlags::default() });
        assert!(target.needs_password() && target.password.is_none());
        assert!(!target.with_password("typed".into()).needs_password());
    }

    #[test]
    fn localhost_is_the_socket_unless_a_port_or_protocol_asks_for_tcp() {
        let host = Host::new();
        host.write("etc/my.cnf", "[client]\nport=3399\nsocket=/s\n", 0o644);
        let flags = ConnectFlags { host: Some("localhost".to_owned()), ..ConnectFlags::default() };
        assert_eq!(host.resolve(&flags).endpoint, Endpoint::Socket("/s".into()));
        let ported = ConnectFlags { port: Some(3307), ..flags.clone() };
        assert_eq!(host.resolve(&ported).endpoint, tcp("localhost", 3307));
        let both = ConnectFlags { socket: Some("/t".into()), ..ported };
        assert_eq!(host.resolve(&both).endpoint, Endpoint::Socket("/t".into()));
        let address = ConnectFlags { host: Some("127.0.0.1".to_owned()), ..flags };
        assert_eq!(host.resolve(&address).endpoint, tcp("127.0.0.1", 3399));
        host.write("home/.my.cnf", "[client]\nprotocol=tcp\n", 0o600);
        assert_eq!(host.resolve(&ConnectFlags::default()).endpoint, tcp("localhost", 3399));
    }

    #[test]
    fn an_authority_alone_means_verify_ca_and_mariadbs_names_are_known() {
        let host = Host::new();
        host.write("etc/my.cnf", "[client]\nssl-ca=/ca.pem\n", 0o644);
        assert_eq!(host.resolve(&ConnectFlags::default()).tls.mode, SslMode::VerifyCa);
        host.write("etc/my.cnf", "[client]\nssl-verify-server-cert\n", 0o644);
        assert_eq!(host.resolve(&ConnectFlags::default()).tls.mode, SslMode::VerifyIdentity);
        host.write("etc/my.cnf", "[client]\nskip-ssl\n", 0o644);
        assert_eq!(host.resolve(&ConnectFlags::default()).tls.mode, SslMode::Disabled);
        host.write("etc/my.cnf", "[client]\nssl_mode=sometimes\n", 0o644);
        let error = resolve(&ConnectFlags::default(), &host.environment()).unwrap_err().to_string();
        assert!(error.contains("ssl-mode in") && error.contains("line 2"), "{error}");
        host.write("etc/my.cnf", "[client]\nloose-ssl_mode=sometimes\n", 0o644);
        assert_eq!(host.resolve(&ConnectFlags::default()).notes.len(), 1);
    }

    #[test]
    fn what_other_programs_need_is_left_to_them_and_a_typo_in_the_own_group_is_shown() {
        let host = Host::new();
        host.write("etc/my.cnf", "[client]\ndefault-character-set=utf8\n[spindoctor]\npasword=x\n", 0o644);
        let notes = host.resolve(&ConnectFlags::default()).notes;
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("unknown option pasword"), "{notes:?}");
    }

    #[test]
    fn nothing_that_is_printed_holds_the_password() {
        let host = Host::new();
        let flags = ConnectFlags {
            dsn: Some("mysql://app:topsecret@db17/".into()),
            password: Some(Some("topsecret".into())),
            ..ConnectFlags::default()
        };
        let environment = Environment { mysql_pwd: Some("topsecret".into()), ..host.environment() };
        let target = resolve(&flags, &environment).unwrap();
        assert_eq!(target.password.as_ref().map(Secret::expose), Some("topsecret"));
        let printed = format!("{flags:?} {environment:?} {target:?}");
        assert!(!printed.contains("topsecret"), "{printed}");
    }

    #[test]
    fn loopback_is_local_and_a_documentation_address_is_not() {
        assert!(Target::new(tcp("127.0.0.1", 1), "u").is_local());
        assert!(Target::new(tcp("::1", 1), "u").is_local());
        assert!(!Target::new(tcp("192.0.2.1", 1), "u").is_local());
        assert_eq!(Target::new(tcp("::1", 3306), "u").address(), "[::1]:3306");
    }
}
