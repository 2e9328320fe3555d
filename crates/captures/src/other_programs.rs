//! Files of other programs that look like a server's option file, or say how a program finds its server: php.ini, ODBC's files, an
//! environment (`.env`), HeidiSQL's sessions, WordPress's configuration. Nothing in them is used, and no value of them is shown: they have
//! passwords.
//!
//! ```text
//! [MySQLi]
//! mysqli.max_links = -1                        php.ini
//!
//! [shop]
//! Driver = /usr/lib/libmyodbc8w.so             odbc.ini, odbcinst.ini
//!
//! DB_HOST=127.0.0.1                            .env
//! Servers\shop\Host<|||>1<|||>127.0.0.1        HeidiSQL, portable_settings.txt and what it exports
//! define( 'DB_HOST', 'localhost' );            wp-config.php
//! ```

use crate::named;

/// Lines below a group, or below the first line of a file, in which its program shows itself. By judgement: php.ini has a page of remarks
/// below some groups.
const NEAR: usize = 60;
/// Names of an environment that say how a program finds its server, fewer of which may be anything.
const FEW: usize = 2;

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Php,
    Odbc,
    Environment,
    HeidiSql,
    WordPress,
}

impl Program {
    fn sentence(self) -> &'static str {
        match self {
            Self::Php => "it is a php.ini, not an option file of a server: nothing in it is used",
            Self::Odbc => "it is a file of ODBC, not an option file of a server: nothing in it is used",
            Self::Environment => {
                "it is an environment (.env) that says how a program finds its server: nothing in it is used"
            }
            Self::HeidiSql => "it has the sessions of HeidiSQL: nothing in it is used",
            Self::WordPress => {
                "it is a wp-config.php, which says how WordPress finds its server: nothing in it is used"
            }
        }
    }
}

/// True where a file of another program begins.
pub(crate) fn begins(lines: &[&str], at: usize) -> bool {
    program(lines, at).is_some()
}

/// True for a line that may go on with such a file.
pub(crate) fn goes_on(lines: &[&str], at: usize) -> bool {
    const OF_PHP: [&str; 9] = ["<?", "?>", "/*", "*", "//", "$", "define(", "if ", "require"];
    let line = lines[at].trim();
    if is_group(line) {
        return !named::is_group(line) || begins(lines, at);
    }
    line.is_empty()
        || line.starts_with(['#', ';', '}'])
        || setting(line).is_some()
        || is_of_heidi(line)
        || OF_PHP.iter().any(|begin| line.starts_with(begin))
}

/// What such a file is, in a sentence.
pub(crate) fn read(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let first = (0..lines.len().min(NEAR)).find_map(|at| program(&lines, at));
    first.map_or("nothing in it is used", Program::sentence).to_owned()
}

fn program(lines: &[&str], at: usize) -> Option<Program> {
    let line = lines[at].trim();
    match () {
        () if is_of_heidi(line) => Some(Program::HeidiSql),
        () if is_group(line) => of_group(line, &lines[at + 1..]),
        () if is_of_php(line) => Some(Program::Php),
        () if is_of_environment(line) => begins_environment(lines, at).then_some(Program::Environment),
        () if line.starts_with("<?php") || is_of_wordpress(line) => {
            let is_near = lines[at..].iter().take(2 * NEAR).any(|line| is_of_wordpress(line.trim()));
            is_near.then_some(Program::WordPress)
        }
        () => None,
    }
}

/// True where an environment begins in which a server is named. Below its first line it is not looked for, so that each line is read once.
fn begins_environment(lines: &[&str], at: usize) -> bool {
    let is_remark = |line: &str| line.is_empty() || line.starts_with('#');
    let above = lines[..at].iter().rev().map(|line| line.trim()).find(|line| !is_remark(line));
    if above.is_some_and(is_of_environment) {
        return false;
    }
    let all = lines[at..].iter().map(|line| line.trim());
    let all = all.take_while(|line| is_remark(line) || is_of_environment(line));
    all.filter(|line| says_where(line)).take(FEW).count() == FEW
}

/// `[MySQLi]`
fn is_group(line: &str) -> bool {
    line.len() > 2 && line.starts_with('[') && line.ends_with(']')
}

/// Whose file it is that has this group, with what stands below it.
fn of_group(group: &str, below: &[&str]) -> Option<Program> {
    const OF_ODBC: [&str; 3] = ["[ODBC Data Sources]", "[ODBC Drivers]", "[ODBC]"];
    /// Names in lower case that a driver or a source of ODBC has, and no option file.
    const DRIVERS: [&str; 6] = ["driver", "driver64", "setup", "setup64", "fileusage", "usagecount"];
    if group == "[PHP]" {
        return Some(Program::Php);
    }
    if OF_ODBC.iter().any(|name| group.eq_ignore_ascii_case(name)) {
        return Some(Program::Odbc);
    }
    if named::is_of_server(group.trim_matches(['[', ']'])) {
        return None;
    }
    let settings = || {
        let near = below.iter().map(|line| line.trim()).take(NEAR);
        near.take_while(|line| !is_group(line)).filter(|line| !line.starts_with(['#', ';']))
    };
    let is_driver =
        |line: &str| setting(line).is_some_and(|name| DRIVERS.contains(&name.to_ascii_lowercase().as_str()));
    match settings().find(|line| !line.is_empty()) {
        Some(first) if is_of_php(first) => Some(Program::Php),
        _ if settings().any(is_driver) => Some(Program::Odbc),
        _ => None,
    }
}

/// The name of `name = value`.
fn setting(line: &str) -> Option<&str> {
    const LONGEST: usize = 64;
    let name = line.split_once('=')?.0.trim();
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-. ".contains(c);
    let is_name = !name.is_empty() && name.len() <= LONGEST && name.chars().all(is_letter);
    (is_name && name.starts_with(|c: char| c.is_ascii_alphabetic())).then_some(name)
}

/// `mysqli.default_port = 3306`, `extension=mysqli`. Options of a server have points in their names, too: of a key cache, of a component.
fn is_of_php(line: &str) -> bool {
    const OWN: [&str; 6] =
        ["mysqli.", "mysqlnd.", "pdo_mysql.", "mysql.allow_", "mysql.default_", "mysql.max_"];
    const EXTENSIONS: [&str; 3] = ["mysqli", "pdo_mysql", "mysqlnd"];
    match setting(line) {
        Some("extension") => EXTENSIONS.iter().any(|extension| line.contains(extension)),
        Some(name) => OWN.iter().any(|begin| name.starts_with(begin)),
        None => false,
    }
}

/// `DB_HOST=127.0.0.1`, with `export ` before it or not.
fn is_of_environment(line: &str) -> bool {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let Some((name, _)) = line.split_once('=') else { return false };
    let is_letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (2..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(is_letter)
}

/// True for a line of an environment that says where a server of MySQL or MariaDB is, or how to log in.
fn says_where(line: &str) -> bool {
    const NAMES: [&str; 10] = [
        "DB_CONNECTION",
        "DB_HOST",
        "DB_PORT",
        "DB_DATABASE",
        "DB_NAME",
        "DB_USER",
        "DB_USERNAME",
        "DB_PASSWORD",
        "DB_PASS",
        "DATABASE_URL",
    ];
    let line = line.strip_prefix("export ").unwrap_or(line);
    let name = line.split('=').next().unwrap_or_default();
    NAMES.contains(&name) || ["MYSQL_", "MARIADB_"].iter().any(|begin| name.starts_with(begin))
}

fn is_of_heidi(line: &str) -> bool {
    line.contains("<|||>")
}

/// `define( 'DB_NAME', 'shop' );`
fn is_of_wordpress(line: &str) -> bool {
    const NAMES: [&str; 4] = ["DB_NAME", "DB_USER", "DB_PASSWORD", "DB_HOST"];
    let Some(rest) = line.strip_prefix("define(") else { return false };
    let name = rest.trim_start().trim_start_matches(['\'', '"']);
    NAMES.iter().any(|known| name.strip_prefix(known).is_some_and(|rest| rest.starts_with(['\'', '"'])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::{Part, recognise};

    const PHP: &str = "[Pdo_mysql]\n; Default socket name for local MySQL connects.\npdo_mysql.default_socket=\n\n[MySQLi]\n\n\
                       ; Maximum number of persistent links.  -1 means no limit.\nmysqli.max_persistent = -1\n\
                       mysqli.default_port = 3306\nmysqli.default_pw = secret\n\n[mysqlnd]\nmysqlnd.collect_statistics = On\n\n\
                       [Session]\nsession.save_handler = files\n";
    const ODBC: &str = "[ODBC Data Sources]\nshop = the shop\n\n[shop]\nDriver = /usr/lib/odbc/libmyodbc8w.so\nServer = 10.0.0.4\n\
                        Port = 3306\nUID = app\nPWD = secret\n";
    const ODBCINST: &str = "[MySQL]\nDescription = ODBC for MySQL\nDriver = /usr/lib/libmyodbc5.so\nSetup = /usr/lib/libodbcmyS.so\nFileUsage = 1\n";
    const ENVIRONMENT: &str = "APP_NAME=Laravel\nAPP_ENV=production\nAPP_KEY=base64:secret\nAPP_DEBUG=false\n\nLOG_CHANNEL=stack\n\n\
                               # The database\nDB_CONNECTION=mysql\nDB_HOST=127.0.0.1\nDB_PORT=3306\nDB_DATABASE=shop\n\
                               DB_USERNAME=app\nDB_PASSWORD=secret\n\nMAIL_HOST=smtp\n";
    const HEIDI: &str = "Servers\\shop\\Host<|||>1<|||>127.0.0.1\nServers\\shop\\User<|||>1<|||>root\n\
                         Servers\\shop\\Password<|||>1<|||>secret\nServers\\shop\\Port<|||>1<|||>3306\n";
    const WORDPRESS: &str = "<?php\n/**\n * The base configuration for WordPress\n */\n\n/** The name of the database */\n\
                             define( 'DB_NAME', 'shop' );\ndefine( 'DB_USER', 'app' );\ndefine( 'DB_PASSWORD', 'secret' );\n\
                             define('DB_HOST', 'localhost:3306');\n\n$table_prefix = 'wp_';\n";

    fn described(parts: &[Part]) -> Vec<(Kind, usize)> {
        parts.iter().map(|part| (part.kind, part.moments.len())).collect()
    }

    #[test]
    fn each_is_said_to_be_one_and_no_value_of_it_is_shown() {
        for (text, says) in [
            (PHP, Program::Php),
            (
                "[PHP]\n\n;;;;;;;;;;;\n; About ;\n;;;;;;;;;;;\nengine = On\nmemory_limit = 128M\n",
                Program::Php,
            ),
            ("extension=mysqli\nextension=pdo_mysql\n", Program::Php),
            (ODBC, Program::Odbc),
            (ODBCINST, Program::Odbc),
            (ENVIRONMENT, Program::Environment),
            ("MYSQL_ROOT_PASSWORD=secret\nMYSQL_DATABASE=shop\n", Program::Environment),
            ("export DB_HOST=db1\nexport DB_PASS=secret\n", Program::Environment),
            (HEIDI, Program::HeidiSql),
            (WORDPRESS, Program::WordPress),
        ] {
            for text in [text.to_owned(), format!("This is what we have:\n\n```\n{text}```\n\nThanks\n")] {
                let parts = recognise("x", &text);
                assert_eq!(described(&parts), [(Kind::OtherProgram, 0)], "{text}: {parts:#?}");
                assert_eq!(parts[0].says, [says.sentence()], "{text}");
                assert!(!format!("{parts:?}").contains("secret"), "{parts:?}");
            }
        }
    }

    #[test]
    fn an_environment_is_one_however_far_below_its_beginning_it_names_a_server() {
        let above: String = (0..3 * NEAR).map(|at| format!("APP_{at}=secret\n")).collect();
        for between in ["", "\n# The database\n"] {
            let parts = recognise("x", &format!("{above}{between}DB_HOST=db1\nDB_PASSWORD=secret\n"));
            assert_eq!(described(&parts), [(Kind::OtherProgram, 0)], "{parts:#?}");
            assert!(!format!("{parts:?}").contains("secret"), "{parts:?}");
        }
        let lines = ["APP_A=1", "", "DB_HOST=db1", "DB_PORT=1", "a", "DB_HOST=db1", "DB_PORT=1"];
        let begins: Vec<usize> = (0..lines.len()).filter(|at| begins(&lines, *at)).collect();
        assert_eq!(begins, [0, 5]);
    }

    #[test]
    fn an_option_file_beside_it_is_one() {
        let options = "[mysqld]\ninnodb_buffer_pool_size = 4G\nmax_connections = 500\n";
        for other in [PHP, ODBC, ODBCINST, ENVIRONMENT, HEIDI] {
            for text in [format!("{other}\n{options}"), format!("{options}\n{other}")] {
                let mut kinds: Vec<Kind> = recognise("x", &text).iter().map(|part| part.kind).collect();
                kinds.sort_unstable();
                assert_eq!(kinds, [Kind::OptionFile, Kind::OtherProgram], "{text}");
            }
        }
    }

    #[test]
    fn option_files_and_other_texts_are_none_of_them() {
        for text in [
            "[client]\nport = 3306\nsocket = /tmp/a.sock\n[mysqld]\nhot_cache.key_buffer_size = 2G\nvalidate_password.length = 8\n",
            "[mysql]\nprompt = db1\n[mysqldump]\nquick\n",
        ] {
            assert_eq!(recognise("my.cnf", text)[0].kind, Kind::OptionFile, "{text}");
        }
        for text in [
            "APP_NAME=x\nAPP_ENV=y\n",
            "DB_HOST=one line alone\n",
            "define('WP_DEBUG', true);\n",
            "[shop]\na = b\n",
        ] {
            let parts = recognise("x", text);
            assert!(parts.iter().all(|part| part.kind == Kind::Unknown), "{text}: {parts:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\[MySQLi\\]|\\[|\\]|mysqli\\.a = 1|Driver = x|DB_HOST=|DB_PORT=|<\\?php|define\\( 'DB_NAME'|<\\|\\|\\|>|=|é|\n){0,60}") {
            let lines: Vec<&str> = text.lines().collect();
            for at in 0..lines.len() {
                let _ = (begins(&lines, at), goes_on(&lines, at));
            }
            read(&text);
        }
    }
}
