//! The server and account to connect to, put together as MySQL's clients do.
//!
//! In: [`ConnectFlags`] (the command line) and an [`Environment`] (variables, folders). Out: a
//! [`Target`]. What counts, from strongest to weakest: a flag; the DSN or URL; what the program's own
//! configuration says; `.mylogin.cnf`; the option files, a later one before an earlier one; `MYSQL_HOST`,
//! `MYSQL_TCP_PORT`, `MYSQL_UNIX_PORT`, `MYSQL_PWD`; the default. Where a flag names an option file, a group or a
//! login path, these count before the configuration. Nothing but the option files is read.

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

/// What makes a login path.
const MAKES_ONE: &str = "mysql_config_editor set --login-path=NAME makes one";

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
    let Layers { flags: given, target, settings, configured, environment: of_environment, named, mut notes } =
        Layers::read(flags, environment)?;
    let given = given.over(target);
    expect_files(&given)?;
    let explicit_port = given.port.is_some();
    // What is given with a port or host on the command line does not mean the option file's socket.
    let explicit_socket = given.socket.is_some();
    let from_files = settings_layer(&settings, &mut notes)?;
    let stored = if named { from_files.over(configured) } else { configured.over(from_files) };
    let all = given.over(stored).over(of_environment);

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
        query: query_timeout(flags, environment).filter(|limit| !limit.is_zero()).unwrap_or(default.query),
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

/// Files that the command line names are there: a socket needs none of them, and TLS would speak of a missing one only once the
/// server answers. What an option file names is left to those who need it: it is for all of the host's programs.
fn expect_files(given: &Layer) -> Result<(), ConnectError> {
    let named = [
        ("--ssl-ca", &given.ssl_ca),
        ("--ssl-cert", &given.ssl_cert),
        ("--ssl-key", &given.ssl_key),
        ("--server-public-key-path", &given.server_public_key),
    ];
    for (option, path) in named {
        let Some(path) = path else { continue };
        let Err(error) = std::fs::metadata(path) else { continue };
        let path = path.display();
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no file {path}"),
            _ => format!("{path} cannot be read: {error}"),
        };
        return Err(ConnectError::BadOption { option: option.to_owned(), reason });
    }
    Ok(())
}

/// `--query-timeout`, which no option file has.
pub(crate) fn query_timeout(flags: &ConnectFlags, environment: &Environment) -> Option<Duration> {
    flags.query_timeout.or(environment.configured.query_timeout)
}

/// Everything that says something of a connection, in the order in which it counts: the flags, the DSN or URL, the
/// configuration, the option files, the environment.
pub(crate) struct Layers {
    pub(crate) flags: Layer,
    pub(crate) target: Layer,
    pub(crate) configured: Layer,
    /// Of the option files: a later one counts before an earlier one.
    pub(crate) settings: Vec<Setting>,
    pub(crate) environment: Layer,
    /// True where a flag names what of the option files is read: they count before the configuration then.
    pub(crate) named: bool,
    pub(crate) notes: Vec<String>,
}

impl Layers {
    /// Reads the option files.
    pub(crate) fn read(flags: &ConnectFlags, environment: &Environment) -> Result<Self, ConnectError> {
        let target =
            flags.dsn.as_ref().map(|text| dsn::parse(text.expose())).transpose()?.unwrap_or_default();
        let only = flags.defaults_file.as_ref().or(target.defaults_file.as_ref());
        let named = only.is_some()
            || flags.defaults_extra_file.is_some()
            || flags.defaults_group_suffix.is_some()
            || flags.login_path.is_some();
        let Settings { mut settings, mut notes } = read_option_files(flags, only, environment)?;
        let mut configured = flags_layer(&environment.configured);
        let mut of_environment = environment_layer(environment, &mut notes);
        let flags = flags_layer(flags);
        if names_a_socket_alone(&flags, &target) {
            // Another place's host would lead to another server than the one that was named.
            settings.retain(|setting| !ELSEWHERE.contains(&setting.key.trim_start_matches("loose-")));
            (configured.host, configured.port) = (None, None);
            (of_environment.host, of_environment.port) = (None, None);
        }
        Ok(Self { flags, configured, settings, environment: of_environment, target, named, notes })
    }
}

/// What leads away from a socket.
const ELSEWHERE: [&str; 3] = ["host", "port", "protocol"];

/// True where the command line has a socket and nothing that leads elsewhere: then the socket it is, whatever is said below. As
/// MariaDB's clients since 10.6.1; MySQL's go to a host that an option file has.
fn names_a_socket_alone(flags: &Layer, target: &Layer) -> bool {
    let is_named = |layer: &Layer| layer.socket.as_ref().is_some_and(|path| !path.as_os_str().is_empty());
    let leads_elsewhere =
        |layer: &Layer| layer.host.is_some() || layer.port.is_some() || layer.protocol == Some(Protocol::Tcp);
    (is_named(flags) || is_named(target)) && ![flags, target].into_iter().any(leads_elsewhere)
}

fn flags_layer(flags: &ConnectFlags) -> Layer {
    Layer {
        host: flags.host.clone(),
        port: flags.port,
        socket: flags.socket.clone(),
        user: flags.user.clone(),
        password: flags.password.clone(),
        database: flags.database.clone(),
        ssl_mode: flags.ssl_mode,
        ssl_ca: flags.ssl_ca.clone(),
        ssl_cert: flags.ssl_cert.clone(),
        ssl_key: flags.ssl_key.clone(),
        server_public_key: flags.server_public_key_path.clone(),
        get_server_public_key: flags.get_server_public_key.then_some(true),
        trust_unverified_server: flags.trust_unverified_server.then_some(true),
        connect_timeout: flags.connect_timeout,
        ..Layer::default()
    }
}

/// `/etc/my.cnf`, `/etc/mysql/my.cnf`, `/usr/etc/my.cnf`, `$MYSQL_HOME/my.cnf`, the extra file,
/// `~/.my.cnf` (mysys/my_default.cc, `init_default_directories`); `~/.mylogin.cnf` last and always.
fn read_option_files(
    flags: &ConnectFlags,
    only: Option<&PathBuf>,
    environment: &Environment,
) -> Result<Settings, ConnectError> {
    let configured = &environment.configured;
    let suffix = flags.defaults_group_suffix.as_ref().or(configured.defaults_group_suffix.as_ref());
    let suffix = suffix.or(environment.group_suffix.as_ref());
    // A flag that names what of the usual files is read wants them read.
    let wants_usual = flags.defaults_extra_file.is_some() || flags.defaults_group_suffix.is_some();
    let is_usual = flags.no_defaults || flags.defaults_extra_file.is_some();
    let only = only.or(configured.defaults_file.as_ref().filter(|_| !is_usual));
    let none = flags.no_defaults || (configured.no_defaults && !wants_usual);
    let extra = flags.defaults_extra_file.as_ref().or(configured.defaults_extra_file.as_ref());
    let login_path = flags.login_path.as_ref().or(configured.login_path.as_ref());
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
    if let Some(only) = only {
        must(&mut reader, only)?;
    } else if !none {
        for folder in ["etc", "etc/mysql", "usr/etc"] {
            reader.read_if_there(&environment.root.join(folder).join("my.cnf"));
        }
        if let Some(home) = &environment.mysql_home {
            reader.read_if_there(&home.join("my.cnf"));
        }
        if let Some(extra) = extra {
            must(&mut reader, extra)?;
        }
        if let Some(home) = &environment.home {
            reader.read_if_there(&home.join(".my.cnf"));
        }
    }
    let mut found = reader.finish();

    // MySQL's clients go on in silence where the login path is missing, as another account then. Who names one means it.
    let without = |reason: String| ConnectError::BadOption { option: "--login-path".to_owned(), reason };
    let default = environment.home.as_ref().map(|home| home.join(".mylogin.cnf"));
    let file = environment.login_file.clone().or(default);
    if let (None, Some(name)) = (&file, login_path) {
        return Err(without(format!("{name} is not known: HOME is not set, so there is no login path file")));
    }
    if let Some(path) = file {
        let mut names = GROUPS.to_vec();
        names.extend(login_path.map(String::as_str));
        let groups = with_suffix(&names);
        match login_path::read(&path) {
            Ok(Some(text)) => {
                if let Some(name) = login_path {
                    let wanted = with_suffix(&[name.as_str()]);
                    if !wanted.iter().any(|group| login_path::has_group(&text, group)) {
                        return Err(without(format!(
                            "{} has no login path {name}; {MAKES_ONE}",
                            path.display()
                        )));
                    }
                }
                let mut reader = Reader::new(&groups, &environment.root);
                reader.take(&path, &text);
                let login = reader.finish();
                found.settings.extend(login.settings);
                found.notes.extend(login.notes);
            }
            Ok(None) => {
                if let Some(name) = login_path {
                    let reason = format!("{name} is not known: there is no {}; {MAKES_ONE}", path.display());
                    return Err(without(reason));
                }
            }
            Err(note) if login_path.is_some() => return Err(without(note)),
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
mod tests;
