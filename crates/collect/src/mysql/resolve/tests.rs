//! A host whose option files, home and environment are the test's.

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
fn a_login_path_that_is_named_must_be_there() {
    let host = Host::new();
    let refused = |name: &str| {
        let flags = ConnectFlags { login_path: Some(name.to_owned()), ..ConnectFlags::default() };
        resolve(&flags, &host.environment()).map(|target| target.user).map_err(|error| error.to_string())
    };
    let why = refused("db17").unwrap_err();
    assert!(why.starts_with("--login-path: db17 is not known") && why.contains(".mylogin.cnf"), "{why}");
    let text = "[client]\nuser = \"5\"\n[DB17]\nuser = \"6\"\n[empty]\n";
    let login = login_path::tests::encode(text, *b"abcdefghijklmnopqrst");
    host.write("home/.mylogin.cnf", &login, 0o600);
    assert_eq!((refused("db17"), refused("empty")), (Ok("6".to_owned()), Ok("5".to_owned())));
    let why = refused("db18").unwrap_err();
    assert!(why.contains("has no login path db18; mysql_config_editor"), "{why}");
    host.write("home/.mylogin.cnf", &login, 0o644);
    assert!(refused("db17").unwrap_err().contains("chmod 600"));
}

#[test]
fn a_file_of_tls_that_the_command_line_names_must_be_there() {
    let host = Host::new();
    let there = host.write("ca.pem", "", 0o600);
    let absent = host.root.path().join("absent.pem");
    let missing = Some(absent.clone());
    for (option, flags) in [
        ("--ssl-ca", ConnectFlags { ssl_ca: missing.clone(), ..ConnectFlags::default() }),
        (
            "--ssl-key",
            ConnectFlags {
                ssl_cert: Some(there.clone()),
                ssl_key: missing.clone(),
                ..ConnectFlags::default()
            },
        ),
        (
            "--server-public-key-path",
            ConnectFlags { server_public_key_path: missing, ..ConnectFlags::default() },
        ),
    ] {
        let why = resolve(&flags, &host.environment()).unwrap_err().to_string();
        assert_eq!(why, format!("{option}: there is no file {}", absent.display()));
    }
    let flags = ConnectFlags { ssl_ca: Some(there), ..ConnectFlags::default() };
    assert_eq!(host.resolve(&flags).tls.mode, SslMode::VerifyCa);
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
fn the_configuration_counts_after_the_command_line_and_before_files_that_nobody_named() {
    let host = Host::new();
    host.write("etc/my.cnf", "[client]\nuser=file\nport=1\npassword=p\n[client_x]\nuser=suffix\n", 0o644);
    let extra = host.write("extra.cnf", "[client]\nuser=extra\n", 0o600);
    let configured = ConnectFlags {
        host: Some("db17".to_owned()),
        user: Some("own".to_owned()),
        query_timeout: Some(Duration::from_secs(7)),
        ..ConnectFlags::default()
    };
    let of_configuration = |configured: &ConnectFlags, flags: &ConnectFlags| {
        let environment = Environment {
            configured: configured.clone(),
            mysql_host: Some("of.environment".to_owned()),
            ..host.environment()
        };
        resolve(flags, &environment).unwrap()
    };
    let target = of_configuration(&configured, &ConnectFlags::default());
    assert_eq!((target.user.as_str(), &target.endpoint), ("own", &tcp("db17", 1)));
    assert_eq!(target.limits.query, Duration::from_secs(7));
    let dsn = ConnectFlags { dsn: Some("h=db18,u=dsn".into()), ..ConnectFlags::default() };
    let target = of_configuration(&configured, &dsn);
    assert_eq!((target.user.as_str(), &target.endpoint), ("dsn", &tcp("db18", 1)));
    for (named, user) in [
        (ConnectFlags { defaults_extra_file: Some(extra.clone()), ..ConnectFlags::default() }, "extra"),
        (ConnectFlags { defaults_file: Some(extra.clone()), ..ConnectFlags::default() }, "extra"),
        (ConnectFlags { defaults_group_suffix: Some("_x".to_owned()), ..ConnectFlags::default() }, "suffix"),
    ] {
        assert_eq!(of_configuration(&configured, &named).user, user, "{named:?}");
    }
    // What the configuration says of option files holds as the flag does, and a flag before it.
    let only =
        ConnectFlags { user: None, defaults_file: Some(extra), no_defaults: true, ..configured.clone() };
    assert_eq!(of_configuration(&only, &ConnectFlags::default()).user, "extra");
    let none = ConnectFlags { no_defaults: true, ..ConnectFlags::default() };
    assert_eq!(of_configuration(&only, &none).user, "me");
    let typed = host.write("typed.cnf", "[client]\nuser=typed\n", 0o600);
    let typed = ConnectFlags { defaults_extra_file: Some(typed), ..ConnectFlags::default() };
    assert_eq!(of_configuration(&only, &typed).user, "typed");
    let none = ConnectFlags { user: None, no_defaults: true, ..configured };
    assert_eq!(of_configuration(&none, &ConnectFlags::default()).user, "me");
    assert_eq!(of_configuration(&none, &typed).user, "typed");
    let suffix = ConnectFlags { defaults_group_suffix: Some("_x".to_owned()), ..ConnectFlags::default() };
    assert_eq!(of_configuration(&none, &suffix).user, "suffix");
}

#[test]
fn a_socket_that_is_typed_is_the_server_whatever_files_and_variables_say() {
    let host = Host::new();
    host.write("etc/my.cnf", "[client]\nhost=file\nport=1\nloose-protocol=tcp\n", 0o644);
    let environment = Environment {
        configured: ConnectFlags { host: Some("db17".to_owned()), port: Some(2), ..ConnectFlags::default() },
        mysql_host: Some("of.environment".to_owned()),
        mysql_tcp_port: Some("3".to_owned()),
        ..host.environment()
    };
    let endpoint = |flags: &ConnectFlags| resolve(flags, &environment).unwrap().endpoint;
    let socket = || Some(PathBuf::from("/tmp/test.sock"));
    let there = Endpoint::Socket("/tmp/test.sock".into());
    assert_eq!(endpoint(&ConnectFlags { socket: socket(), ..ConnectFlags::default() }), there);
    assert_eq!(
        endpoint(&ConnectFlags { dsn: Some("S=/tmp/test.sock".into()), ..ConnectFlags::default() }),
        there
    );
    // With a host of the same line it is what MySQL's clients make of both.
    let both = ConnectFlags { socket: socket(), host: Some("db18".to_owned()), ..ConnectFlags::default() };
    assert_eq!(endpoint(&both), tcp("db18", 2));
    assert_eq!(endpoint(&ConnectFlags::default()), tcp("db17", 2));
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
