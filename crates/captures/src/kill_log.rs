//! What pt-kill prints of the sessions that it would end, or has ended, as the process list that it read.
//!
//! ```text
//! # 2024-05-03T07:11:09 KILL 8812 (Query 412 sec) SELECT * FROM orders
//! ```

/// A session of such a line.
struct Killed<'t> {
    time: &'t str,
    id: &'t str,
    command: &'t str,
    seconds: &'t str,
    statement: &'t str,
}

/// The lines of a text, with those of pt-kill as lists: one for each time that it looked.
pub(crate) fn with_lists(lines: Vec<String>) -> Vec<String> {
    if !lines.iter().any(|line| killed(line).is_some()) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len() + 2);
    let mut looked: Option<String> = None;
    for line in lines {
        let Some(session) = killed(&line) else {
            looked = None;
            all.push(line);
            continue;
        };
        if looked.as_deref() != Some(session.time) {
            all.extend([String::new(), "Id\tCommand\tTime\tInfo".to_owned()]);
            looked = Some(session.time.to_owned());
        }
        let Killed { id, command, seconds, statement, .. } = session;
        all.push(format!("{id}\t{command}\t{seconds}\t{}", statement.replace('\t', " ")));
    }
    all
}

fn killed(line: &str) -> Option<Killed<'_>> {
    // Marks of a comment, and a time in front, may be gone.
    let line = line.trim_start().trim_start_matches("# ");
    let (time, rest) = match line.strip_prefix("KILL ") {
        Some(rest) => ("", rest),
        None => line.split_once(" KILL ")?,
    };
    let (id, rest) = rest.trim_start_matches("QUERY ").split_once(" (")?;
    let (command, rest) = rest.split_once(' ')?;
    let (seconds, statement) = rest.split_once(" sec)")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = time.is_empty()
        || time.starts_with(|c: char| c.is_ascii_digit()) && !time.contains(' ') && time.contains('T');
    let statement = statement.trim();
    let statement = if statement.is_empty() { "NULL" } else { statement };
    (is_time && is_number(id) && is_number(seconds)).then_some(Killed {
        time,
        id,
        command,
        seconds,
        statement,
    })
}

#[cfg(test)]
mod tests {
    use crate::{Kind, recognise, window};

    #[test]
    fn each_look_of_pt_kill_is_a_list() {
        let text = "# 2024-05-03T07:11:09 KILL 8812 (Query 412 sec) SELECT * FROM orders WHERE a = 'x'\n\
                    # 2024-05-03T07:11:09 KILL 8813 (Sleep 398 sec) NULL\n\
                    # 2024-05-03T07:11:39 KILL 8814 (Query 31 sec) UPDATE stock SET n = 1\n";
        let parts = recognise("x", text);
        assert!(parts.iter().all(|part| part.kind == Kind::ProcessList), "{parts:?}");
        let window = window(&parts);
        let lists = window.all(|sample| &sample.server.threads);
        let ids = |at: usize| lists[at].1.iter().filter_map(|one| one.connection_id).collect::<Vec<_>>();
        assert_eq!((lists.len(), ids(0), ids(1)), (2, vec![8812, 8813], vec![8814]));
        assert_eq!((lists[0].1[0].time_s, lists[0].1[0].command.as_str()), (412.0, "Query"));
    }

    #[test]
    fn a_remark_on_kill_is_none() {
        let text = "# use KILL 8812 (it waits for 4 sec) or wait".to_owned();
        assert_eq!(super::with_lists(vec![text.clone()]), [text]);
    }
}
