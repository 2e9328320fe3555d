//! What stands below the transactions of a status that somebody shortened.
//!
//! A server's answer is read with care: no heading counts that stands so near below a statement that it may be a part of one. Who
//! pasted a status may have left out most of what is between the statement and the log.

use spindoctor_collect::mysql::innodb_status;
use spindoctor_model::InnodbStatus;

const BELOW: [&str; 4] = ["FILE I/O", "LOG", "BUFFER POOL AND MEMORY", "ROW OPERATIONS"];
const END: &str = "END OF INNODB MONITOR OUTPUT";

/// Adds the sections below the transactions, where the log was not read, and the text goes on to its end line and has each heading once.
pub(super) fn add_sections(text: &str, status: &mut InnodbStatus) {
    if status.log.current_lsn.is_some() || !text.contains(END) {
        return;
    }
    let times = |heading: &str| text.lines().filter(|line| line.trim() == heading).count();
    if BELOW.iter().any(|heading| times(heading) > 1) {
        return;
    }
    let Some(begin) = first_below(text) else { return };
    let below = innodb_status::parse(&text[begin..]);
    status.file_io = below.file_io;
    status.log = below.log;
    status.buffer_pool = below.buffer_pool;
    status.row_operations = below.row_operations;
}

/// Where the rule stands above the first of those headings that is below the last transaction.
fn first_below(text: &str) -> Option<usize> {
    let is_rule = |line: &str| line.len() >= 3 && line.bytes().all(|byte| byte == b'-');
    let (mut begin, mut above, mut at) = (None, None, 0);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        if line.starts_with("---TRANSACTION ") {
            begin = None;
        } else if begin.is_none() && BELOW.contains(&bare) {
            begin = above;
        }
        above = is_rule(bare).then_some(at);
        at += line.len();
    }
    begin
}

#[cfg(test)]
mod tests {
    use crate::status::read;

    #[test]
    fn a_status_that_was_shortened_below_its_statements_keeps_its_log_and_its_pool() {
        let end =
            "============================\nEND OF INNODB MONITOR OUTPUT\n============================\n";
        let below = "--------\nFILE I/O\n--------\nPending flushes (fsync): 1\n---\nLOG\n---\nLog sequence number 5000000000\n\
                     Last checkpoint at  4901800000\n----------------------\nBUFFER POOL AND MEMORY\n----------------------\n\
                     Buffer pool size   65528\nFree buffers       3\n";
        let text = |statement: &str, below: &str| {
            format!(
                "=====================================\n2024-03-04 10:11:12 0x7f1d INNODB MONITOR OUTPUT\n=====================================\n\
                 ------------\nTRANSACTIONS\n------------\nTrx id counter 900\nLIST OF TRANSACTIONS FOR EACH SESSION:\n\
                 ---TRANSACTION 899, ACTIVE 9 sec inserting\n1 lock struct(s), heap size 1128, 0 row lock(s), undo log entries 7\n\
                 MySQL thread id 41, OS thread handle 14, query id 88 localhost app Update\n{statement}\n{below}{end}"
            )
        };
        let status = read(&text("INSERT INTO a VALUES (1)", below)).unwrap().status;
        assert_eq!(status.log.checkpoint_age_bytes(), Some(98_200_000));
        assert_eq!(status.buffer_pool.free_pages, Some(3));
        // A statement that has a heading of its own: nobody knows which is the server's.
        let both = text("INSERT INTO a VALUES ('\n---\nLOG\n---\nLog sequence number 7\n')", below);
        assert_eq!(read(&both).unwrap().status.log.current_lsn, None);
        let cut = text("INSERT INTO a VALUES (1)", below).replace(end, "");
        assert_eq!(read(&cut).unwrap().status.log.current_lsn, None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(---TRANSACTION |---\n|LOG\n|FILE I/O\r\n|END OF INNODB MONITOR OUTPUT\n|é|\n){0,40}") {
            super::first_below(&text);
            read(&text);
        }
    }
}
