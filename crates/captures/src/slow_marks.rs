//! The `#` before the heads of a slow query log, where a forum made something else of it: `// Query_time: 2.1`, `## Time: 240611`, or
//! nothing at all.

/// What the lines of heads begin with behind their mark, as all servers write them.
const HEADS: [&str; 16] = [
    "Time: ",
    "User@Host: ",
    "Thread_id: ",
    "Schema: ",
    "Query_time: ",
    "Rows_affected: ",
    "Rows_sent: ",
    "Bytes_sent: ",
    "Tmp_tables: ",
    "Tmp_table_sizes: ",
    "InnoDB_trx_id: ",
    "InnoDB_IO_r_ops: ",
    "InnoDB_rec_lock_wait: ",
    "QC_Hit: ",
    "Full_scan: ",
    "Filesort: ",
];

/// A head of such a log, without its mark and the blanks about it.
fn head(line: &str) -> Option<&str> {
    /// Marks are of a few characters.
    const LONGEST: usize = 8;
    let rest = line.trim_start_matches([' ', '\t', '/', '#', '\\', '*', ';', '-', '>', '!', '.']);
    let is_known = |rest: &str| HEADS.iter().any(|begins| rest.starts_with(begins));
    (line.len() - rest.len() <= LONGEST && is_known(rest)).then_some(rest)
}

/// True for the head that no such log is without.
fn is_times(line: &str) -> bool {
    let number = |rest: &str| rest.split_whitespace().next().is_some_and(|word| word.parse::<f64>().is_ok());
    head(line).and_then(|rest| rest.strip_prefix("Query_time: ")).is_some_and(|rest| {
        number(rest.trim_start()) && rest.split_once("Lock_time: ").is_some_and(|(_, rest)| number(rest))
    })
}

/// The lines of a text, with the mark that a server writes before the heads of its slow log. A text in which one of them has it is as it was.
pub(crate) fn with_marks(mut lines: Vec<String>) -> Vec<String> {
    let is_marked = |line: &String| line.starts_with("# ") && is_times(line);
    if !lines.iter().any(|line| is_times(line)) || lines.iter().any(is_marked) {
        return lines;
    }
    for line in &mut lines {
        if let Some(rest) = head(line) {
            *line = format!("# {rest}");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::recognise;

    const LOG: &str = "# Time: 230304 10:11:12\n# User@Host: app[app] @ web3 [10.0.0.13]\n\
                       # Thread_id: 7  Schema: shop  QC_hit: No\n\
                       # Query_time: 41.5  Lock_time: 40.5  Rows_sent: 0  Rows_examined: 1\n\
                       # Rows_affected: 1  Bytes_sent: 52\nSET timestamp=1677924672;\nUPDATE stock SET n = 8123 WHERE id = 7;\n";

    #[test]
    fn a_log_is_the_same_with_each_mark() {
        let whole = recognise("a.txt", LOG);
        assert_eq!(whole[0].kind, Kind::SlowLog);
        for mark in ["// ", "//", "", "## ", "\\# ", "#", "  * "] {
            let text = LOG.replace("# ", mark);
            let parts = recognise("a.txt", &text);
            assert_eq!(parts.len(), 1, "{mark}: {parts:?}");
            assert_eq!((parts[0].kind, &parts[0].says), (Kind::SlowLog, &whole[0].says), "{mark}");
            assert!(!parts[0].says.concat().contains("8123"));
        }
    }

    #[test]
    fn a_log_that_has_its_marks_and_what_is_none_stay_as_they_are() {
        let statement = format!("{LOG}SELECT 1 --\n// Time: a comment\n;\n");
        for text in [statement.as_str(), "Time: 3 pm\nQuery_time: high\n", "Query_time: 3.1\n"] {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(with_marks(lines.clone()), lines);
        }
    }
}
