//! Command lines and files, put together by the program's own flags.

use std::path::Path;

use clap::CommandFactory as _;
use spindoctor_collect::mysql::Secret;

use super::*;
use crate::commands::Cli;
use crate::config::file;

fn settings(text: &str) -> Settings {
    let entries = file::entries_of(text.as_bytes(), Path::new("/x.toml")).unwrap();
    Settings::checked(entries, Vec::new(), &Cli::command()).unwrap()
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

/// The values of some flags, as text.
fn values(text: &str, line: &str, ids: &[&str]) -> Result<Vec<String>, String> {
    let settings = settings(text);
    let configured = match configured(&Cli::command(), &words(line), &settings) {
        Ok(configured) => configured,
        Err(Refused::Usage(error)) => return Err(error.to_string()),
        Err(Refused::Configuration(error)) => return Err(error.to_string()),
    };
    let own = configured.own();
    Cli::from_arg_matches(&configured.matches).map_err(|error| error.to_string())?;
    let text = |id: &&str| {
        let raw = own.get_raw(id).into_iter().flatten();
        raw.map(|value| value.to_str().unwrap()).collect::<Vec<_>>().join(",")
    };
    Ok(ids.iter().map(text).collect())
}

#[test]
fn a_key_is_the_default_of_its_flag_and_the_flag_counts_first() {
    let text = "[record]\nkeep = '14d'\nwhen = ['a > 1', 'b > 2']\nno-stacks = true\n[sweep]\nthreads = '1,2'\nruns = 5\n";
    let ids = ["keep", "when", "no_stacks", "max_size"];
    assert_eq!(values(text, "s record", &ids).unwrap(), ["14d", "a > 1,b > 2", "true", "1G"]);
    let line = "s record --keep 1d --when c>3 --no-stacks=false --max-size 2G";
    assert_eq!(values(text, line, &ids).unwrap(), ["1d", "c>3", "false", "2G"]);
    assert_eq!(values(text, "s sweep", &["threads", "runs"]).unwrap(), ["1,2", "5"]);
    assert_eq!(values(text, "s sweep --threads 8", &["threads"]).unwrap(), ["8"]);
    assert_eq!(values(text, "s doctor", &["duration"]).unwrap(), ["10s"]);
    assert!(values("", "s record --no-stacks=false", &ids).unwrap_err().contains("unexpected value"));
}

#[test]
fn a_key_gives_way_to_a_flag_that_excludes_it() {
    let text = "[stacks]\nformat = 'svg'\nhz = 20\n";
    assert_eq!(values(text, "s stacks --json", &["format", "hz", "json"]).unwrap(), ["", "20", "true"]);
    assert_eq!(values(text, "s stacks --once", &["format", "hz"]).unwrap(), ["svg", ""]);
    // `--no-literals` is a promise.
    let text = "[record]\nliterals = true\n";
    assert_eq!(values(text, "s record --no-literals", &["literals"]).unwrap(), ["false"]);
    assert_eq!(values(text, "s record", &["literals"]).unwrap(), ["true"]);
    // One of several lists of servers is chosen.
    let text = "[fleet]\nservers = '/list'\n";
    assert_eq!(
        values(text, "s fleet servers --discover db17", &["servers", "discover"]).unwrap(),
        ["", "db17"]
    );
    assert_eq!(
        values("[connection]\nremote = true\n", "s doctor --pid 1", &["remote", "pid"]).unwrap(),
        ["false", "1"]
    );
}

#[test]
fn a_key_counts_as_typed_where_the_line_must_have_it() {
    let text = "[fleet]\nservers = ['/a', '/b']\nretries = 3\n[export]\nout = 'tables'\nlayout = 'dated'\n[record]\nparquet = '/p'\n";
    assert_eq!(values(text, "s fleet doctor", &["servers", "retries"]).unwrap(), ["/a,/b", "3"]);
    assert_eq!(values(text, "s fleet query SELECT", &["sql", "servers"]).unwrap(), ["SELECT", "/a,/b"]);
    assert_eq!(
        values(text, "s export f.rec", &["file", "out", "layout"]).unwrap(),
        ["f.rec", "tables", "dated"]
    );
    let line = "s record --parquet-every 1m";
    assert_eq!(values(text, line, &["parquet", "parquet_every"]).unwrap(), ["/p", "1m"]);
    assert!(
        values("[export]\nlayout = 'dated'\n", "s export f.rec", &["out"]).unwrap_err().contains("--out")
    );
    // What needs another flag waits for it.
    assert_eq!(
        values("[cache]\ninterval = '5s'\n", "s cache", &["interval", "follow"]).unwrap(),
        ["5s", "false"]
    );
    assert_eq!(values("[locks]\nwatch = true\n", "s locks", &["watch"]).unwrap(), ["1s"]);
}

#[test]
fn a_value_that_its_flag_does_not_take_is_named_with_its_place() {
    for (text, line, expected) in [
        (
            "[record]\n\nkeep = '3x'\n",
            "s record",
            "/x.toml:3: keep in [record]: invalid value '3x' for '--keep <TIME>': ",
        ),
        ("[doctor]\nfail-on = 'no'\n", "s doctor", "[possible values: note, warning, critical, never]"),
        (
            "[doctor]\njson = 'yes'\n",
            "s doctor",
            "/x.toml:2: json in [doctor]: it is a switch: true or false",
        ),
        ("[record]\nkeep = true\n", "s record", "keep in [record]: a value is wanted"),
        ("[record]\nkeep = ['1d']\n", "s record", "one value is wanted, not a list"),
        (
            "[connection]\nport = 70000\n",
            "s doctor",
            "/x.toml:2: port in [connection]: invalid value '70000'",
        ),
        ("[stacks]\ndiff = 'a'\n", "s stacks", "/x.toml:2: diff in [stacks]: "),
        (
            "[doctor]\njson = true\nnagios = true\n",
            "s doctor",
            "/x.toml:3: nagios cannot be used with json (/x.toml:2): take one of them out",
        ),
    ] {
        let why = values(text, line, &[]).unwrap_err();
        assert!(why.contains(expected) && !why.contains('\n'), "{text}: {why}");
    }
    let why = values("[record]\nwebhook = 'file://topsecret'\n", "s record", &[]).unwrap_err();
    assert!(why.contains(":2: webhook") && !why.contains("topsecret"), "{why}");
    assert!(values("[record]\nkeep = '3x'\n", "s doctor", &[]).is_ok(), "it is another command's");
}

#[test]
fn what_a_file_says_of_the_connection_counts_after_what_the_line_says() {
    let settings = settings(
        "[connection]\nhost = 'db17'\nport = 3307\nuser = 'u'\npassword = 'topsecret'\nssl-mode = 'REQUIRED'\n\
         query-timeout = '3s'\nlogin-path = 'prod'\n[record]\nuser = 'recorder'\n",
    );
    let of_line = |line: &str| configured(&Cli::command(), &words(line), &settings).unwrap();
    let doctor = of_line("s doctor h=other");
    let connection = &doctor.connection;
    assert_eq!((connection.host.as_deref(), connection.port), (Some("db17"), Some(3307)));
    assert_eq!(connection.password.as_ref().and_then(Option::as_ref).map(Secret::expose), Some("topsecret"));
    assert_eq!(connection.login_path.as_deref(), Some("prod"));
    assert_eq!(connection.query_timeout, Some(std::time::Duration::from_secs(3)));
    assert!(doctor.own().get_raw("host").is_none(), "it is no default: a DSN would not count before it");
    assert_eq!(of_line("s record").connection.user.as_deref(), Some("recorder"));
    let fleet = of_line("s fleet query --servers f SELECT");
    assert_eq!((fleet.connection.host.clone(), fleet.connection.port), (None, Some(3307)));
    assert_eq!(
        fleet.own().get_raw("query_timeout").unwrap().next().unwrap(),
        "3s",
        "there it is a limit of the fleet"
    );
    assert!(!format!("{doctor:?}").contains("topsecret"));
}

#[test]
fn a_password_that_is_true_is_asked_for() {
    let settings = settings("[connection]\npassword = true\n");
    let doctor = configured(&Cli::command(), &words("s doctor"), &settings).unwrap();
    assert_eq!(doctor.connection.password, Some(None));
}

#[test]
fn a_line_names_its_command_and_its_file() {
    let program = Cli::command();
    let named = |line: &str| {
        let named = Named::find(&program, &words(line));
        (named.path.join(" "), named.begin)
    };
    assert_eq!(named("s"), (String::new(), 1));
    assert_eq!(named("s --config doctor record -o doctor"), ("record".to_owned(), 4));
    assert_eq!(named("s fleet --config=x query SELECT"), ("fleet query".to_owned(), 4));
    assert_eq!(named("s nonsense doctor"), (String::new(), 1));
    for (line, is) in [("s doctor", true), ("s", false), ("s config show", false), ("s tune-guardian", false)]
    {
        assert_eq!(is_configured(&program, &words(line)), is, "{line}");
    }
    let file = |line: &str| config_flag(&words(line)).map(|file| file.into_string().unwrap());
    assert_eq!(file("s --config a doctor").as_deref(), Some("a"));
    assert_eq!(file("s doctor --config=a").as_deref(), Some("a"));
    assert_eq!(file("s lab run x -- y --config a"), None);
}

/// Each key of each command can be set: with a value of its help, or the default.
#[test]
fn every_flag_of_every_command_is_a_key() {
    let program = Cli::command();
    let mut commands = Vec::new();
    crate::config::settings::leaves(&program, &[], &mut commands);
    let mut tried = 0;
    for (path, command) in &commands {
        for arg in command.get_arguments() {
            let (Some(key), Some(default)) = (arg.get_long(), arg.get_default_values().first()) else {
                continue;
            };
            let text = format!("[{}]\n{key} = {:?}\n", path.join("."), default.to_str().unwrap());
            let settings = settings(&text);
            let entries = settings.of_command(path, command);
            assert_eq!(entries.len(), 1, "{text}");
            check(command, &entries).unwrap_or_else(|error| panic!("{text}: {error}"));
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
}
