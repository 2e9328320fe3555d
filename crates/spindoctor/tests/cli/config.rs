//! The configuration file, from outside: where it is found, what it changes, what is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::program::spindoctor;

/// A folder with a configuration file, and one with an option file in it.
struct Home(tempfile::TempDir);

impl Home {
    fn new(text: &str) -> Self {
        let home = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir_all(home.path(".config/spindoctor")).expect("folders");
        for folder in [".config", ".config/spindoctor"] {
            fs::set_permissions(home.path(folder), fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
        home.write(".config/spindoctor/spindoctor.toml", text);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).expect("it is written");
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).expect("it is ours");
        self.path(name)
    }

    /// Standard output, standard error and the exit code, with this home.
    fn run(&self, line: &str, variables: &[(&str, &str)]) -> (String, String, i32) {
        let mut command = spindoctor(line);
        command.env("HOME", self.0.path()).envs(variables.iter().copied());
        let output = command.output().expect("the program runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (text(output.stdout), text(output.stderr), output.status.code().expect("no signal ended it"))
    }
}

#[test]
fn what_the_file_says_is_done_and_what_is_typed_counts_first() {
    let home = Home::new("[explain]\njson = true\n");
    let (json, _, code) = home.run("explain row-lock-pileup", &[]);
    assert!(code == 0 && json.contains("spindoctor.causes/1"), "{json}");
    let (text, _, code) = home.run("explain row-lock-pileup --json=false", &[]);
    assert!(code == 0 && text.starts_with("row-lock-pileup"), "{text}");
    for line in ["explain --config /dev/null row-lock-pileup", "--config=/dev/null explain row-lock-pileup"] {
        assert_eq!(home.run(line, &[]).0, text, "{line}");
    }
    let other = home.write("other.toml", "[explain]\njson = false\n");
    let other = other.to_str().expect("UTF-8");
    assert_eq!(home.run("explain row-lock-pileup", &[("SPINDOCTOR_CONFIG", other)]).0, text);
    assert_eq!(home.run(&format!("explain row-lock-pileup --config {other}"), &[]).0, text);
    assert_eq!(home.run("explain row-lock-pileup", &[("XDG_CONFIG_HOME", other)]).0, text, "there is none");
}

#[test]
fn each_value_is_shown_with_where_it_comes_from_and_no_password_with_it() {
    let home = Home::new(
        "[connection]\nuser = \"own\"\npassword = \"topsecret\"\n\n[record]\nkeep = \"14d\"\nmax-size = \"2G\"\n\
         webhook = \"https://hooks.example/topsecret\"\notlp = \"https://me:topsecret@collector.example\"\n",
    );
    home.write(".my.cnf", "[client]\nuser = other\nssl-ca = /ca.pem\n[spindoctor]\nport = 3307\n");
    let variables = [("MYSQL_HOST", "of.environment"), ("MYSQL_PWD", "topsecret")];
    let (shown, notes, code) = home.run("config show record --keep 3d -ptopsecret", &variables);
    assert_eq!((code, notes.as_str()), (0, ""));
    let toml = home.path(".config/spindoctor/spindoctor.toml").display().to_string();
    let cnf = home.path(".my.cnf").display().to_string();
    let line = |name: &str| {
        let line = shown.lines().find(|line| line.split_whitespace().next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{shown}"));
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("keep"), "3d flag");
    assert_eq!(line("max-size"), format!("2G {toml}:7 [record]"));
    assert_eq!(line("parquet-every"), "5m default");
    assert_eq!(line("metrics"), "- default");
    assert_eq!(line("webhook"), format!("*** {toml}:8 [record]"));
    assert_eq!(line("user"), format!("own {toml}:2 [connection]"));
    assert_eq!(line("password"), "*** flag");
    assert_eq!(line("ssl-ca"), format!("/ca.pem {cnf} line 3 [client]"));
    assert_eq!(line("ssl-mode"), "VERIFY_CA default");
    assert_eq!(line("port"), format!("3307 {cnf} line 5 [spindoctor]"));
    assert_eq!(line("host"), "of.environment MYSQL_HOST");
    assert!(shown.contains(&format!("  {toml}: read\n")) && !shown.contains("topsecret"), "{shown}");

    let (shown, _, _) = home.run("config show doctor mysql://app:topsecret@db17:3308/", &variables);
    assert!(shown.contains("TARGET") && shown.contains("db17") && !shown.contains("topsecret"), "{shown}");

    let (json, _, code) = home.run("config show --json record", &variables);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, json["schema"].as_str()), (0, Some("spindoctor.config/1")));
    let values = json["values"].as_array().expect("values");
    let keep = values.iter().find(|value| value["name"] == "keep").expect("keep");
    assert_eq!(keep["values"], serde_json::json!(["14d"]));
    assert_eq!((keep["from"].as_str(), keep["place"].as_str()), (Some("file"), Some(&*format!("{toml}:6"))));
    assert!(!json.to_string().contains("topsecret"));

    let (shown, _, code) = home.run("config show", &[]);
    assert!(code == 0 && shown.contains("keep") && !shown.contains("topsecret"), "{shown}");
    let (shown, _, code) = home.run("config show export", &[]);
    assert!(code == 0 && shown.contains("layout"), "what it must have is not asked for: {shown}");
    let (_, usage, code) = home.run("config show recrod", &[]);
    assert!(code == 2 && usage.contains("record"), "{usage}");
}

#[test]
fn what_is_wrong_is_one_line_and_nothing_is_done() {
    for (text, line, expected) in [
        ("[record]\nkep = 1\n", "explain", ":2: unknown key kep in [record]: did you mean keep?"),
        ("[record]\nkeep = '3x'\n", "config show", ":2: keep in [record]: invalid value '3x'"),
        ("[record\n", "explain", ":1: not TOML"),
        ("[tune]\napply = true\n", "tune", ":2: apply in [tune] is not taken from a file"),
    ] {
        let (printed, message, code) = Home::new(text).run(line, &[]);
        assert_eq!((printed.as_str(), code), ("", 2), "{text}");
        assert!(message.contains(expected) && message.trim_end().lines().count() == 1, "{message}");
    }
    let home = Home::new("[record\n");
    assert_eq!(home.run("--help", &[]).2, 0, "help reads no file");
    assert_eq!(home.run("record --help", &[]).2, 0);
    assert_eq!(home.run("--version", &[]).2, 0);
    let (_, message, code) = home.run("explain", &[("SPINDOCTOR_CONFIG", "/no/such.toml")]);
    assert!(code == 2 && message.contains("/no/such.toml of SPINDOCTOR_CONFIG cannot be read"), "{message}");
}

#[test]
fn a_file_that_another_account_can_change_runs_nothing() {
    let home = Home::new("[record]\non-event = '/bin/true'\n");
    let toml = home.path(".config/spindoctor/spindoctor.toml");
    for (path, mode) in [(toml.clone(), 0o620), (home.path(".config"), 0o777)] {
        let before = fs::metadata(&path).expect("it is there").permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let (printed, message, code) = home.run("explain", &[]);
        assert_eq!((printed.as_str(), code), ("", 2));
        assert!(
            message.contains("can be changed by other accounts") && message.contains("chmod go-w"),
            "{message}"
        );
        fs::set_permissions(&path, before).expect("it is ours");
    }
    assert_eq!(home.run("explain", &[]).2, 0);
    if !rustix::process::geteuid().is_root() {
        println!("skipped: giving a file to another account needs root");
        return;
    }
    std::os::unix::fs::chown(&toml, Some(65_534), None).expect("root may");
    let (_, message, code) = home.run("explain", &[]);
    assert!(code == 2 && message.contains("belongs to uid 65534"), "{message}");
}

#[test]
fn the_example_of_the_book_is_one_that_the_program_takes() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/commands/config.md");
    let page = fs::read_to_string(page).expect("the page");
    let text =
        page.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```")).expect("an example").0;
    let (shown, message, code) = Home::new(text).run("config show", &[]);
    assert_eq!((message.as_str(), code), ("", 0));
    for part in ["14d", "Threads_running > 50, host.load > 8", "fleet query", "table"] {
        assert!(shown.contains(part), "{shown}");
    }
}

/// As Kubernetes mounts a ConfigMap: read-only, in a folder that everybody could write, behind links of its own.
#[test]
fn a_folder_that_everybody_may_write_is_trusted_where_it_is_mounted_read_only() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mounted = folder.path().display();
    let made = format!(
        "mount -t tmpfs -o mode=0777 none {mounted} && cd {mounted} && umask 022 && mkdir ..1 && ln -s ..1 ..data && \
         ln -s ..data/spindoctor.toml . && printf '[explain]\\njson = true\\n' >..1/spindoctor.toml && cd /"
    );
    let ask = |remount: &str| {
        let program = spindoctor(&format!("explain row-lock-pileup --config {mounted}/spindoctor.toml"));
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "sh", "-c", &format!("{made} {remount} && exec \"$@\""), "sh"]);
        command.arg(program.get_program()).args(program.get_args()).env("HOME", "/nonexistent");
        let output = command.output().expect("unshare runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (text(output.stdout), text(output.stderr))
    };
    let (json, why) = ask(&format!("&& mount -o remount,ro {mounted}"));
    assert!(json.contains("spindoctor.causes/1"), "{why}");
    let (nothing, why) = ask("");
    assert!(nothing.is_empty() && why.contains("is not read: "), "{why}");
}
