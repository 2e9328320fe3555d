//! The pages of help. `COMMAND --help` is what is wanted most, on one screen of 80x24: the size that terminals open with since the
//! VT100, and that of `top`. `help COMMAND --all` is every flag, and `help connection` the flags that all commands share.
//!
//! A flag that is wanted rarely says so itself, with `hide_short_help`.

use std::ffi::OsString;

use clap::{Args as _, Command};

use crate::common::flags::Connection;

/// The heading of the flags that `help connection` lists.
const CONNECTION: &str = "Connection";
/// The short page lists the values of a flag that has no more of them.
const MOST_VALUES: usize = 5;
/// What `help` is asked for besides commands.
const PAGE: &str = "connection";

/// Which page the help of a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// What is wanted most.
    Short,
    /// Every flag.
    All,
    /// The flags of a connection, which are no command.
    Connection,
}

/// `help COMMAND` and a `-h` that nothing follows as `--help`: people type both. A `-h` with a value is the server's host, as
/// with any MySQL client.
pub fn asked(arguments: impl IntoIterator<Item = OsString>) -> (Page, Vec<OsString>) {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut page = Page::Short;
    if arguments.get(1).is_some_and(|first| first == "help") {
        arguments.remove(1);
        let before = arguments.len();
        arguments.retain(|argument| argument != "--all");
        if arguments.len() < before {
            page = Page::All;
        }
        if arguments.get(1).is_some_and(|first| first == PAGE) {
            page = Page::Connection;
        }
        arguments.push("--help".into());
    }
    let is_last_of_ours = !arguments.iter().any(|argument| argument == "--");
    match arguments.last_mut() {
        Some(last) if is_last_of_ours && last == "-h" => *last = "--help".into(),
        _ => {}
    }
    (page, arguments)
}

/// The program with this page as the help of its commands.
pub fn program(program: Command, page: Page) -> Command {
    match page {
        Page::Short => program.mut_subcommands(|command| short(command, "")),
        Page::All => all(program),
        Page::Connection => all(program).subcommand(connection()),
    }
}

/// The flags that are wanted most, under one heading; where the others are.
fn short(command: Command, above: &str) -> Command {
    let name = format!("{above}{}", command.get_name());
    if command.has_subcommands() {
        return command.mut_subcommands(|inner| short(inner, &format!("{name} ")));
    }
    let of_connection = |arg: &clap::Arg| arg.get_help_heading() == Some(CONNECTION);
    let (connects, more) = command.get_arguments().fold((false, false), |(connects, more), arg| {
        (connects || of_connection(arg), more || arg.is_hide_short_help_set() && !of_connection(arg))
    });
    let has_target = command.get_arguments().any(|arg| arg.get_id() == "target");
    // A note of one line stays; a longer one is on the page of all flags, where there is one.
    let note = command.get_after_help().map(ToString::to_string);
    let mut lines: Vec<String> = note.into_iter().filter(|note| !more || !note.contains('\n')).collect();
    if connects {
        lines.push(match has_target {
            true => {
                "Server: TARGET, -h, -P, -S, -u, -p as with mysql: `spindoctor help connection`".to_owned()
            }
            false => "Logins: -P, -u, -p as with mysql: `spindoctor help connection`".to_owned(),
        });
    }
    if more {
        lines.push(format!("More options, and more on these: `spindoctor help {name} --all`"));
    }
    let command = command.mut_args(|arg| match of_connection(&arg) || arg.get_id() == "target" {
        true => arg.hide_short_help(true),
        false if more => in_short(arg.help_heading(None::<&'static str>)),
        false => arg.help_heading(None::<&'static str>),
    });
    if lines.is_empty() { command } else { command.after_help(lines.join("\n")) }
}

/// A flag with the first clause of its help, and without a long list of its values.
fn in_short(arg: clap::Arg) -> clap::Arg {
    let many = arg.get_possible_values().len() > MOST_VALUES;
    let help = arg.get_help().map(|help| first_clause(&help.to_string()).to_owned());
    let arg = if many { arg.hide_possible_values(true) } else { arg };
    match help {
        Some(help) => arg.help(help),
        None => arg,
    }
}

/// Up to the first colon, semicolon, full stop or bracket, and not within parentheses.
fn first_clause(help: &str) -> &str {
    let end = [": ", "; ", ". ", " ["].iter().filter_map(|sign| help.find(sign)).min().unwrap_or(help.len());
    let clause = &help[..end];
    match clause.rfind(" (") {
        Some(open) if !clause[open..].contains(')') => &clause[..open],
        _ => clause,
    }
}

/// Every flag under its heading.
fn all(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(all)
}

fn connection() -> Command {
    let command = Command::new(PAGE)
        .about("How a command reaches its server: as with any MySQL client")
        .override_usage("spindoctor COMMAND [TARGET] [OPTIONS]")
        .disable_help_flag(true)
        .after_help(
            "What counts, from first to last: a flag; TARGET; a login path or option file that a flag names; the configuration \
             file (`spindoctor help config`); ~/.mylogin.cnf; option files, their groups client and spindoctor; MYSQL_HOST, \
             MYSQL_TCP_PORT, MYSQL_UNIX_PORT and MYSQL_PWD. `spindoctor config show COMMAND` shows what came of it.",
        );
    Connection::augment_args(command)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Cli;

    /// A terminal of 80 columns and 24 rows, of which the prompt takes one.
    const SCREEN: (usize, usize) = (80, 23);
    /// The list of all commands has a line for each.
    const LIST_ROWS: usize = 30;

    fn pages(command: &Command, name: &str, found: &mut Vec<(String, String)>) {
        let own = command.clone().bin_name(name).term_width(SCREEN.0);
        found.push((name.to_owned(), own.clone().render_help().to_string()));
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            pages(inner, &format!("{name} {}", inner.get_name()), found);
        }
    }

    fn built(page: Page) -> Vec<(String, String)> {
        let mut program = program(Cli::command(), page);
        program.build();
        let mut found = Vec::new();
        pages(&program, "spindoctor", &mut found);
        found
    }

    #[test]
    fn the_help_of_each_command_fits_on_one_screen() {
        let pages = built(Page::Short);
        assert!(pages.len() > 30, "{} pages", pages.len());
        let mut wrong = Vec::new();
        for (name, text) in &pages {
            let (rows, most) =
                (text.lines().count(), if name == "spindoctor" { LIST_ROWS } else { SCREEN.1 });
            let columns = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            if rows > most || columns > SCREEN.0 {
                wrong.push(format!("{name}: {rows} rows of {most}, {columns} columns\n{text}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_flag_is_on_the_page_of_all_and_the_short_one_says_where() {
        let (short, all) = (built(Page::Short), built(Page::All));
        let mut program = Cli::command();
        program.build();
        for ((name, short), (_, all)) in short.iter().zip(&all) {
            let words = name.split(' ').skip(1);
            let command = words.fold(&program, |command, word| command.find_subcommand(word).unwrap());
            let flags =
                command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(clap::Arg::get_long);
            let is_on = |page: &str, flag: &str| {
                page.split(|c: char| c.is_whitespace() || "[=".contains(c))
                    .any(|word| word == format!("--{flag}"))
            };
            let mut is_short = false;
            for flag in flags.filter(|flag| *flag != "config") {
                assert!(name == "spindoctor" || is_on(all, flag), "{name}: no --{flag} in\n{all}");
                let is_connection = flag_of_connection(flag);
                is_short |= !is_on(short, flag) && !is_connection;
            }
            let more = name.replacen("spindoctor ", "spindoctor help ", 1) + " --all`";
            assert_eq!(short.contains(&more), is_short && name != "spindoctor", "{name}\n{short}");
        }
    }

    fn flag_of_connection(flag: &str) -> bool {
        let command = Connection::augment_args(Command::new("x")).disable_help_flag(true);
        command.get_arguments().any(|arg| arg.get_long() == Some(flag))
    }

    #[test]
    fn a_short_help_is_the_first_clause() {
        for (help, short) in [
            ("How long to look: 10s, 2m", "How long to look"),
            ("Print JSON (schema a/1; with --x b/1)", "Print JSON"),
            ("Print JSON (schema a/1)", "Print JSON (schema a/1)"),
            ("The file [default: spindoctor.rec: in x]", "The file"),
            ("Only this", "Only this"),
        ] {
            assert_eq!(first_clause(help), short);
        }
    }

    #[test]
    fn the_words_that_ask_for_help_are_those_that_people_type() {
        let asked = |line: &str| {
            let (page, words) = asked(line.split(' ').map(OsString::from));
            let words: Vec<String> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
            (page, words.join(" "))
        };
        for (line, page, words) in [
            ("s help", Page::Short, "s --help"),
            ("s help record", Page::Short, "s record --help"),
            ("s help record --all", Page::All, "s record --help"),
            ("s help --all fleet query", Page::All, "s fleet query --help"),
            ("s help connection", Page::Connection, "s connection --help"),
            ("s record -h", Page::Short, "s record --help"),
            ("s record -h db17", Page::Short, "s record -h db17"),
            ("s lab install --all", Page::Short, "s lab install --all"),
            ("s lab run x -- y -h", Page::Short, "s lab run x -- y -h"),
        ] {
            assert_eq!(asked(line), (page, words.to_owned()), "{line}");
        }
    }
}
