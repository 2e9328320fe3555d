//! What mysqltuner prints: what it finds wrong (`[!!]`), in its own words. No cause rests on it, for its numbers are of all time since the
//! server's start and its rules of thumb are its own.

use crate::rows::is_name;
use crate::secrets;

/// Findings that are shown.
const SHOWN: usize = 12;
/// Characters of one that are shown.
const LONGEST: usize = 160;

/// Words of the titles of its sections (mysqltuner.pl, subheaderprint): `-------- Performance Metrics ---...`.
const TITLES: [&str; 8] = [
    "Recommendations",
    "Statistics",
    "Metrics",
    "Performance schema",
    "Information",
    "Analysis",
    "Status",
    "Results",
];

/// True for the line with which it begins, ` >>  MySQLTuner 1.9.9`, and for the title of a section of it.
pub(crate) fn is_head(line: &str) -> bool {
    let line = line.trim();
    line.strip_prefix(">>").is_some_and(|rest| rest.trim_start().starts_with("MySQLTuner ")) || is_title(line)
}

fn is_title(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("-------- ") else { return false };
    let title = rest.trim_end_matches('-');
    rest.len() - title.len() >= 8 && TITLES.iter().any(|word| title.contains(word))
}

/// True for a line with the mark that it puts before each of its own.
pub(crate) fn is_tagged(line: &str) -> bool {
    const TAGS: [&str; 6] = ["[--]", "[OK]", "[!!]", "[DG]", "[CMD]", "[[0;"];
    TAGS.iter().any(|tag| line.trim_start().starts_with(tag))
}

/// True where lines of its own begin that were copied without the title above them: two with its marks, of which one that nothing else has.
pub(crate) fn begins(lines: &[&str], at: usize) -> bool {
    const OWN: [&str; 2] = ["[!!] ", "[--] "];
    const FEW: usize = 2;
    let has = |line: &str, marks: &[&str]| marks.iter().any(|mark| line.trim_start().starts_with(mark));
    let first = &lines[at..lines.len().min(at + FEW)];
    first.len() == FEW
        && first.iter().all(|line| has(line, &OWN) || has(line, &["[OK] "]))
        && first.iter().any(|line| has(line, &OWN))
}

/// The names above a list of values, as a client prints them in batch mode.
pub(crate) const NAMES: &str = "Variable_name\tValue";

/// The lines of a text, with what it prints with `--debug` of the variables and of the status as a client prints them in batch mode, and
/// without its other remarks on itself:
///
/// ```text
/// [DG] PERFORM: SHOW GLOBAL VARIABLES
/// [DG] V: back_log = 151
/// [DG] S: uptime = 4711
/// ```
pub(crate) fn as_lists(lines: Vec<String>) -> Vec<String> {
    let Some(first) = lines.iter().position(|line| value(line).is_some()) else { return lines };
    let rows = |wanted: &str| -> Vec<String> {
        let of_list = lines.iter().filter_map(|line| value(line)).filter(|(list, ..)| *list == wanted);
        of_list.map(|(_, name, value)| format!("{name}\t{value}")).collect()
    };
    let mut lists: Vec<String> = Vec::new();
    for rows in [rows("V"), rows("S")].into_iter().filter(|rows| !rows.is_empty()) {
        lists.push(NAMES.to_owned());
        lists.extend(rows);
    }
    let others = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| !line.trim_start().starts_with("[DG]")).cloned().collect()
    };
    [others(&lines[..first]), lists, others(&lines[first..])].concat()
}

/// The list that a line of `--debug` is of, the name and the value.
fn value(line: &str) -> Option<(&str, &str, &str)> {
    let rest = line.trim_start().strip_prefix("[DG] ")?;
    if let Some(version) = rest.strip_prefix("VERSION: ") {
        return Some(("V", "version", version.trim()));
    }
    let (list, rest) = rest.split_once(": ").filter(|(list, _)| ["V", "S"].contains(list))?;
    let (name, value) = rest.split_once(" =")?;
    is_name(name).then(|| (list, name, value.trim()))
}

/// What it finds wrong, those of InnoDB first: of the others most are habits.
pub(crate) fn read(text: &str) -> Vec<String> {
    let mut found: Vec<String> =
        text.lines().filter_map(|line| line.trim_start().strip_prefix("[!!]")).map(finding).collect();
    found.sort_by_cached_key(|line: &String| !line.to_ascii_lowercase().contains("innodb"));
    listed("mysqltuner", found)
}

/// A sentence of such a program, as far as it is shown.
pub(crate) fn finding(line: &str) -> String {
    secrets::without_passwords(line.trim()).chars().take(LONGEST).collect()
}

/// What a program finds that gives advice, in its own words.
pub(crate) fn listed(program: &str, mut found: Vec<String>) -> Vec<String> {
    let left_out = found.len().saturating_sub(SHOWN);
    found.truncate(SHOWN);
    if found.is_empty() {
        return vec![format!("{program} finds nothing wrong in it, by its own rules of thumb")];
    }
    let mut says = vec![format!("what {program} finds, by its own rules of thumb; no cause rests on it:")];
    says.extend(found);
    if left_out > 0 {
        says.push(format!("{left_out} more"));
    }
    says
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;

    #[test]
    fn what_it_finds_wrong_is_said() {
        let text = " >>  MySQLTuner 1.9.9\n[OK] fine\n[!!] name resolution is active\n[--] 1) 2022-10-24  6:21:04 0 [Note] ready\n\
                    [!!] InnoDB buffer pool / data size: 128.0M / 46.8G\n";
        assert!(is_head(text.lines().next().unwrap()));
        assert_eq!(
            read(text)[1..],
            ["InnoDB buffer pool / data size: 128.0M / 46.8G", "name resolution is active"]
        );
    }

    #[test]
    fn what_it_prints_of_the_variables_is_their_list() {
        let text = "[DG] Physical Memory: 16620273664\n[OK] Logged in\n[DG] PERFORM: SHOW VARIABLES\n[DG] select_array: return code : 0\n\
                    [DG] VERSION: 5.6.30\n[DG] V: back_log = 56\n[DG] V: init_connect =\n[DG] V: innodb_buffer_pool_size = 21474836480\n\
                    [DG] S: uptime = 4711\n[DG] S: threads_running = 7\n[DG] S: questions = 12\n";
        for text in [text.to_owned(), format!(" >>  MySQLTuner 1.9.9\n{text}")] {
            let parts = crate::recognise("a.txt", &text);
            let kinds: Vec<Kind> =
                parts.iter().map(|part| part.kind).filter(|kind| *kind != Kind::Tuner).collect();
            assert_eq!(kinds, [Kind::GlobalVariables, Kind::GlobalStatus], "{parts:?}");
            let window = crate::window(&parts);
            assert_eq!(window.variable("innodb_buffer_pool_size"), Some("21474836480"));
            assert_eq!(window.status("Threads_running"), Some(7.0));
        }
    }

    #[test]
    fn lines_without_a_title_above_them_are_its_own() {
        let text = "[--] InnoDB is enabled.\n[!!] InnoDB log waits: 0.06% (31 waits / 55189 writes)\n[OK] Slow queries: 0% (2/534)\n\n\
                    -------- AriaDB Metrics -----------------------------------\n[--] AriaDB is disabled.\n";
        let parts = crate::recognise("a.txt", text);
        assert_eq!(parts.len(), 1, "{parts:?}");
        assert_eq!(parts[0].says[1..], ["InnoDB log waits: 0.06% (31 waits / 55189 writes)"]);
        assert_eq!(read("[--] AriaDB is disabled.\n").len(), 1);
        let command = read(
            "[!!] failed: mysql -uroot -phidden7 -e 'SELECT 1'\n[!!] User 'app'@'%' has no password set.\n",
        );
        assert_eq!(
            command[1..],
            ["failed: mysql -uroot -p... -e 'SELECT 1'", "User 'app'@'%' has no password set."]
        );
        for lines in [["[OK] one", "[OK] two"], ["[!!] one", "and a word"], ["word", "[!!] two"]] {
            assert!(!begins(&lines, 0), "{lines:?}");
        }
        assert!(!begins(&["[!!] alone"], 0));
    }

    #[test]
    fn sections_without_the_banner_are_its_own() {
        let text = "-------- Performance Metrics -----------------------------------\n[--] Up for: 3d\n\
                    [!!] Temporary tables created on disk: 91% (9 on disk / 10 total)\n[OK] Slow queries: 0% (2/534)\n";
        for text in [text.to_owned(), format!("all of it:\n\n```\n{text}```\n")] {
            let parts = crate::recognise("a.txt", &text);
            assert_eq!(parts.len(), 1, "{parts:?}");
            assert_eq!(parts[0].says[1..], ["Temporary tables created on disk: 91% (9 on disk / 10 total)"]);
        }
        for line in
            ["-------- Metrics", "------------------------", "-------- Original Message --------", "--------"]
        {
            assert!(!is_head(line), "{line}");
        }
    }
}
