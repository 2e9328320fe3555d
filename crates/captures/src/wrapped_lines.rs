//! Lines that a terminal, a letter or a page wrapped: those of which it is known how they end are whole again.

use std::borrow::Cow;

use crate::heads;

/// Beginnings of lines of which it is known how they end.
const ENDS: [(&str, &str); 4] = [
    ("--Thread ", "the semaphore:"),
    ("------- TRX HAS BEEN WAITING ", "TO BE GRANTED:"),
    ("a writer (thread id ", "exclusive"),
    ("number of readers ", "lock_word: "),
];

/// True where behind the number of its statement a connection's line has nothing: its host, user and state were wrapped.
fn ends_with_query_id(line: &str) -> bool {
    line.rsplit_once(" query id ").is_some_and(|(_, id)| heads::is_number(id.trim()))
}

/// True for what a connection's line ends with: `localhost 127.0.0.1 app update`, and no statement.
fn is_tail(line: &str) -> bool {
    /// Words with which statements begin that no list of transactions shows often.
    const MORE_STATEMENTS: [&str; 8] =
        ["EXPLAIN", "DESCRIBE", "DESC", "USE", "XA", "PREPARE", "EXECUTE", "DO"];
    /// What a status prints below a connection.
    const OTHERS: [&str; 5] = ["Trx ", "TABLE LOCK", "RECORD LOCKS", "---", "***"];
    /// A host, an address, a user and a state are shorter, bytes. By judgement.
    const LONGEST: usize = 200;
    let line = line.trim();
    let first = line.split(' ').next().unwrap_or_default();
    let is_statement = heads::STATEMENTS
        .iter()
        .chain(&MORE_STATEMENTS)
        .any(|statement| first.eq_ignore_ascii_case(statement));
    line.len() <= LONGEST
        && line.split_whitespace().count() >= 2
        && !is_statement
        && !OTHERS.iter().any(|other| line.starts_with(other))
        && line.chars().all(|c| c.is_alphanumeric() || " .-_:@%".contains(c))
}

/// True where the address that a connection's line ends with goes on in the next line: `10.1` and `32.0.5 app update`.
fn is_address_parted(line: &str, next: &str) -> bool {
    let is_address = |text: &str| text.parse::<std::net::Ipv4Addr>().is_ok();
    let last = line.rsplit(' ').next().unwrap_or_default();
    let first = next.split(' ').next().unwrap_or_default();
    last.contains('.') && !first.is_empty() && !is_address(last) && is_address(&format!("{last}{first}"))
}

/// The line of a lock that the first of these lines begins and others end, and how many lines it has. Its table, its transaction or its
/// mode may stand below: `RECORD LOCKS space id 9 page no 3 n bits 72 index PRIMARY of table`, `trx id 8 lock_mode X`, `waiting`.
fn lock_of_lines(lines: &[Cow<'_, str>]) -> Option<(String, usize)> {
    /// Lines that a terminal or a letter makes of one. By judgement.
    const MOST: usize = 4;
    /// Three names of 64 characters, of which each may take four bytes, and the words around them.
    const LONGEST: usize = 1_200;
    const BEGINS: [&str; 2] = ["RECORD LOCKS space id ", "TABLE LOCK table "];
    /// What a status prints below a lock.
    const OTHERS: [&str; 8] =
        ["RECORD LOCKS", "TABLE LOCK", "Record lock", "---", "***", "MySQL thread", "MariaDB thread", "Trx "];
    /// The words behind the mode of a lock.
    const BEHIND: [&str; 9] =
        ["locks", "rec", "but", "not", "gap", "before", "insert", "intention", "waiting"];
    let first = lines.first()?;
    if !BEGINS.iter().any(|begins| first.starts_with(begins)) || first.len() > LONGEST {
        return None;
    }
    let goes_on = |line: &Cow<'_, str>| {
        let line = line.trim();
        !line.is_empty() && line.len() <= LONGEST && !OTHERS.iter().any(|other| line.starts_with(other))
    };
    let is_whole = |line: &str| {
        line.contains(" trx id ") && [" lock_mode ", " lock mode "].iter().any(|mode| line.contains(mode))
    };
    let joined = |count: usize, separator: &str| {
        let pieces = lines.get(..count).filter(|pieces| pieces[1..].iter().all(goes_on))?;
        let line = pieces.iter().map(|piece| piece.trim()).collect::<Vec<_>>().join(separator);
        is_whole(&line).then_some((line, count))
    };
    // Wrapped at a blank, or within a word.
    let (mut line, mut count) =
        (1..=MOST).find_map(|count| joined(count, " ").or_else(|| joined(count, "")))?;
    let is_behind =
        |line: &&Cow<'_, str>| goes_on(line) && line.split_whitespace().all(|word| BEHIND.contains(&word));
    while let Some(more) = lines.get(count).filter(is_behind) {
        line = format!("{line} {}", more.trim());
        count += 1;
    }
    (count > 1).then_some((line, count))
}

/// How many lines stand between a connection and its statement where somebody wrote `SQL:` above it.
fn labels(lines: &[Cow<'_, str>]) -> usize {
    let empty = lines.iter().take_while(|line| line.trim().is_empty()).count();
    match lines.get(empty) {
        Some(label) if label.trim() == "SQL:" => empty + 1,
        _ => 0,
    }
}

/// Lines that were wrapped, in one again: those of which it is known how they end.
pub(crate) fn joined(lines: &[Cow<'_, str>]) -> Vec<String> {
    let mut whole = Vec::with_capacity(lines.len());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if let Some((lock, count)) = lock_of_lines(&lines[at..]) {
            whole.push(lock);
            at += count;
            continue;
        }
        let mut line = line.to_string();
        at += 1;
        if ["MySQL thread id ", "MariaDB thread id "].iter().any(|begins| line.starts_with(begins)) {
            if let Some(tail) = lines.get(at).filter(|next| ends_with_query_id(&line) && is_tail(next)) {
                line = format!("{line} {}", tail.trim());
                at += 1;
            } else if let Some(tail) =
                lines.get(at).filter(|next| is_address_parted(&line, next) && is_tail(next))
            {
                line.push_str(tail.trim());
                at += 1;
            }
            at += labels(&lines[at..]);
        }
        let end = ENDS.iter().find(|(begins, _)| line.starts_with(begins)).map(|(_, end)| *end);
        if let Some(end) = end.filter(|end| !line.contains(end)) {
            // Wrapped at a blank, or within a word.
            let next: String =
                lines[at..].iter().take(2).map(|next| next.trim()).collect::<Vec<_>>().join(" ");
            for (taken, separator) in [(1, " "), (1, ""), (2, " ")] {
                let Some(more) = lines.get(at..at + taken) else { continue };
                let more = more.iter().map(|line| line.trim()).collect::<Vec<_>>().join(separator);
                let candidate = format!("{line}{separator}{more}");
                if candidate.contains(end) && !next.is_empty() && candidate.len() < 400 {
                    line = candidate;
                    at += taken;
                    break;
                }
            }
        }
        whole.push(line);
    }
    whole
}

#[cfg(test)]
mod tests {
    use crate::plain::tests::PLAIN;
    use crate::plain::undamaged;

    #[test]
    fn a_connection_s_line_that_was_wrapped_is_whole_and_a_label_is_no_statement() {
        let whole = "MySQL thread id 62, OS thread handle 17320, query id 51157 localhost 127.0.0.1 app update\ninsert into a values (1)\n";
        let wrapped = whole.replace(" localhost", "\nlocalhost").replace("\ninsert", "\n\nSQL:\ninsert");
        assert_eq!(undamaged(&wrapped), whole);
        let bare = "MySQL thread id 62, OS thread handle 17320, query id 51157\nselect a\n";
        assert_eq!(undamaged(bare), bare);
    }

    #[test]
    fn a_connection_s_address_that_was_wrapped_is_whole() {
        let whole = "MySQL thread id 62, OS thread handle 17320, query id 51157 web1 10.132.0.5 app update\ninsert into a values (1)\n";
        assert_eq!(undamaged(&whole.replace("10.132", "10.1\n32")), whole);
        assert_eq!(undamaged(whole), whole);
    }

    #[test]
    fn the_line_of_a_lock_that_was_wrapped_is_whole() {
        let lock = "RECORD LOCKS space id 9 page no 4 n bits 96 index PRIMARY of table `shop`.`stock` trx id 208 lock_mode X locks gap \
                    before rec insert intention waiting\n";
        let record = "Record lock, heap no 2 PHYSICAL RECORD: n_fields 5; compact format; info bits 0\n";
        for (at, wrapped) in [
            (" of table", "\nof table"),
            (" trx id", " \n  trx id"),
            ("lock_mode X", "lock_mo\nde X"),
            (" insert intention", "\ninsert intention"),
        ] {
            let text = format!("{}{record}", lock.replace(at, wrapped));
            assert_eq!(undamaged(&text), format!("{lock}{record}"), "{text}");
        }
        let twice =
            lock.replace(" of table", "\nof table").replace(" insert intention", "\ninsert intention");
        assert_eq!(undamaged(&twice), lock);
        // What was cut takes nothing of the lock below it.
        let cut = format!("RECORD LOCKS space id 9 page no 4 n bits 96 index PRIMARY of\n{lock}");
        assert_eq!(undamaged(&cut), cut);
    }

    #[test]
    fn wrapped_lines_are_joined() {
        let wrapped = PLAIN
            .replace("18.00 seconds the", "18.00 seconds\nthe")
            .replace("mode  exclusive", "mode\nexclusive");
        assert_eq!(undamaged(&wrapped), PLAIN.replace("mode  exclusive", "mode exclusive"));
    }
}
