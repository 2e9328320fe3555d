//! The environment of the process, as far as connecting depends on it.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::resolve::ConnectFlags;
use super::secret::Secret;

/// What the program's configuration files say of connecting.
static CONFIGURED: OnceLock<ConnectFlags> = OnceLock::new();

/// Remembers what the program's configuration files say of connecting: it counts after the command line. Counts once.
pub fn keep_configured(flags: ConnectFlags) {
    let _ = CONFIGURED.set(flags);
}

/// `MYSQL_PWD` as the process was started with it, once it is no longer in its environment.
static TAKEN_PASSWORD: OnceLock<Option<Secret>> = OnceLock::new();

/// Remembers what `MYSQL_PWD` was, for a program that takes it out of its environment. Counts once.
pub fn keep_password_of_environment(password: Option<Secret>) {
    let _ = TAKEN_PASSWORD.set(password);
}

fn password_of_environment() -> Option<Secret> {
    match TAKEN_PASSWORD.get() {
        Some(taken) => taken.clone(),
        None => std::env::var("MYSQL_PWD").ok().map(Secret::from),
    }
}

/// The environment of the process, as far as connecting depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// `HOME`
    pub home: Option<PathBuf>,
    /// The login name: `root` for the superuser, else that of the password file, `USER` or `LOGNAME`.
    pub login_name: Option<String>,
    /// `MYSQL_PWD`
    pub mysql_pwd: Option<Secret>,
    /// `MYSQL_HOST`
    pub mysql_host: Option<String>,
    /// `MYSQL_TCP_PORT`
    pub mysql_tcp_port: Option<String>,
    /// `MYSQL_UNIX_PORT`: a socket
    pub mysql_unix_port: Option<PathBuf>,
    /// `MYSQL_HOME`: a folder with a `my.cnf`
    pub mysql_home: Option<PathBuf>,
    /// `MYSQL_TEST_LOGIN_FILE`: stands for `~/.mylogin.cnf`
    pub login_file: Option<PathBuf>,
    /// `MYSQL_GROUP_SUFFIX`
    pub group_suffix: Option<String>,
    /// What the program's configuration files say, by the names of the flags.
    pub configured: ConnectFlags,
    /// Stands for `/` before `/etc`, in `!include` and before the default sockets.
    pub root: PathBuf,
}

impl Default for Environment {
    /// Nothing is set, and `/` is `/`.
    fn default() -> Self {
        Self {
            home: None,
            login_name: None,
            mysql_pwd: None,
            mysql_host: None,
            mysql_tcp_port: None,
            mysql_unix_port: None,
            mysql_home: None,
            login_file: None,
            group_suffix: None,
            configured: ConnectFlags::default(),
            root: PathBuf::from("/"),
        }
    }
}

impl Environment {
    /// The process's own.
    pub fn from_process() -> Self {
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let path = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let uid = rustix::process::geteuid();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let login_name = if uid.is_root() {
            Some("root".to_owned())
        } else {
            name_of(uid.as_raw(), &passwd).or_else(|| text("USER")).or_else(|| text("LOGNAME"))
        };
        Self {
            home: path("HOME"),
            login_name,
            // An empty password is a password.
            mysql_pwd: password_of_environment(),
            mysql_host: text("MYSQL_HOST"),
            mysql_tcp_port: text("MYSQL_TCP_PORT"),
            mysql_unix_port: path("MYSQL_UNIX_PORT"),
            mysql_home: path("MYSQL_HOME"),
            login_file: path("MYSQL_TEST_LOGIN_FILE"),
            group_suffix: text("MYSQL_GROUP_SUFFIX"),
            configured: CONFIGURED.get().cloned().unwrap_or_default(),
            root: PathBuf::from("/"),
        }
    }
}

/// The name of a user in the password file: `mysql:x:104:110:MySQL Server,,,:/nonexistent:/bin/false`
fn name_of(uid: u32, passwd: &str) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_name_comes_from_the_password_file() {
        let passwd =
            "root:x:0:0:root:/root:/bin/bash\nmysql:x:104:110:MySQL Server,,,:/nonexistent:/bin/false\n";
        assert_eq!(name_of(104, passwd).as_deref(), Some("mysql"));
        assert_eq!(name_of(105, passwd), None);
    }
}
