//! Passwords stay in this process: before anything else is done, they are removed from the places that others can read.
//!
//! - The arguments, which every user of the machine may read (`/proc/PID/cmdline`), have `x` in the place of each password,
//!   as those of MySQL's own clients do.
//! - `MYSQL_PWD` is taken out of the environment, so that no child has it, and overwritten where the kernel shows it
//!   (`/proc/PID/environ`).
//! - There is no core dump, and nobody but root may look into this process (`PR_SET_DUMPABLE`).
//!
//! The kernel says where both blocks are (`/proc/self/stat`), and writes into them (`/proc/self/mem`): no pointer is needed.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use rustix::process::{DumpableBehavior, Resource, Rlimit, setrlimit};
use spindoctor_collect::mysql::environment;

/// The variable of MySQL's clients with a password.
const VARIABLE: &str = "MYSQL_PWD";

/// Hides what this process was given. To be called at its very beginning, when it has one thread, and after the arguments
/// were copied; what could not be done is said in one line.
pub fn hide() -> Option<String> {
    let given = std::env::var_os(VARIABLE);
    environment::keep_password_of_environment(
        given.as_ref().map(|value| value.to_string_lossy().into_owned().into()),
    );
    if given.is_some() {
        #[expect(unsafe_code, reason = "the environment is changed while there is one thread")]
        // SAFETY: this is called first of all by `main`, so that no other thread runs that could read the environment.
        unsafe {
            std::env::remove_var(VARIABLE);
        }
    }
    let hidden = overwrite().err().map(|error| {
        format!(
            "a password on the command line or in {VARIABLE} may be seen by others on this machine: {error}"
        )
    });
    // Children have the same limit, and set the other for themselves when they are this program. Neither fails (prctl(2),
    // setrlimit(2): lowering is always allowed).
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // Who gave no password has nothing to hear.
    hidden.filter(|_| {
        given.is_some()
            || std::env::args_os().any(|argument| !secrets(argument.as_encoded_bytes()).is_empty())
    })
}

/// Writes `x` over each password of the arguments and of the environment.
fn overwrite() -> std::io::Result<()> {
    let unknown = || std::io::Error::other("/proc/self/stat is not in a form that is known");
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (arguments, environment) = blocks(&stat).ok_or_else(unknown)?;
    let memory = File::options().read(true).write(true).open("/proc/self/mem")?;
    for (block, of_environment) in [(arguments, false), (environment, true)] {
        // A process whose block is empty has none.
        let Some(len) = usize::try_from(block.end.saturating_sub(block.start)).ok().filter(|len| *len > 0)
        else {
            continue;
        };
        let mut bytes = vec![0; len];
        memory.read_exact_at(&mut bytes, block.start)?;
        for secret in secrets_of_block(&bytes, of_environment) {
            let crosses = vec![b'x'; secret.len()];
            memory.write_all_at(&crosses, block.start + secret.start as u64)?;
        }
        bytes.fill(0);
    }
    Ok(())
}

/// Where the arguments and the environment are in memory: fields 48 to 51 of proc_pid_stat(5).
fn blocks(stat: &str) -> Option<(Range<u64>, Range<u64>)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(45);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (arguments, environment) = (next()?..next()?, next()?..next()?);
    (arguments.start > 0).then_some((arguments, environment))
}

/// The passwords in a block of texts that each end with a zero.
fn secrets_of_block(block: &[u8], of_environment: bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for text in block.split(|&byte| byte == 0) {
        let prefix = [VARIABLE.as_bytes(), b"="].concat();
        let within = match of_environment {
            true => text.starts_with(&prefix).then_some(prefix.len()..text.len()).into_iter().collect(),
            false => secrets(text),
        };
        found.extend(within.into_iter().map(|range| start + range.start..start + range.end));
        start += text.len() + 1;
    }
    found
}

/// The passwords in one argument: `-pSECRET`, `--password=SECRET`, `mysql://app:SECRET@db17/`, `h=db17,p=SECRET`. Where it is
/// not sure, it is taken for one: an argument that was read already is shown to nobody but those who look.
fn secrets(argument: &[u8]) -> Vec<Range<usize>> {
    let text = argument;
    for prefix in [&b"--password="[..], b"--password1=", b"-p"] {
        if text.starts_with(prefix) {
            // `-p` alone asks for it.
            return Some(prefix.len()..text.len()).filter(|range| !range.is_empty()).into_iter().collect();
        }
    }
    if let Some(scheme) = find(text, b"://") {
        let start = scheme + 3;
        let authority = &text[start..];
        let end =
            authority.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(authority.len());
        // A password may hold a slash that should have been written otherwise: up to the last @ then.
        let at = authority[..end].iter().rposition(|&byte| byte == b'@');
        let at = at.or_else(|| authority.iter().rposition(|&byte| byte == b'@'));
        let colon = at
            .and_then(|at| authority[..at].iter().position(|&byte| byte == b':').map(|colon| colon + 1..at));
        return colon.map(|range| start + range.start..start + range.end).into_iter().collect();
    }
    // A DSN in the form of Percona Toolkit, perhaps behind a flag: `--discover=h=db17,p=SECRET`. A comma in a value is `\,`.
    let mut found = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let mut end = start;
        while end < text.len() && (text[end] != b',' || end > start && text[end - 1] == b'\\') {
            end += 1;
        }
        let pair = &text[start..end];
        let value = if pair.starts_with(b"p=") { Some(2) } else { find(pair, b"=p=").map(|at| at + 3) };
        if let Some(value) = value.filter(|value| start + value < end) {
            found.push(start + value..end);
        }
        start = end + 1;
    }
    found
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(argument: &str) -> String {
        let mut bytes = argument.as_bytes().to_vec();
        for range in secrets(argument.as_bytes()) {
            bytes[range].fill(b'x');
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn each_form_of_a_password_is_crossed_out_and_nothing_else() {
        for (given, expected) in [
            ("-psecret", "-pxxxxxx"),
            ("-p", "-p"),
            ("--password=se cret", "--password=xxxxxxx"),
            ("--password=", "--password="),
            ("--password", "--password"),
            (
                "mysql://app:secret@db17:3306/shop?ssl-mode=REQUIRED",
                "mysql://app:xxxxxx@db17:3306/shop?ssl-mode=REQUIRED",
            ),
            ("mysql://app:se/cr@t@db17/", "mysql://app:xxxxxxx@db17/"),
            ("mysql://app@db17:3306/", "mysql://app@db17:3306/"),
            ("h=db17,P=3306,u=app,p=se\\,cret,D=shop", "h=db17,P=3306,u=app,p=xxxxxxxx,D=shop"),
            ("p=secret", "p=xxxxxx"),
            ("--discover=p=secret,h=db1", "--discover=p=xxxxxx,h=db1"),
            ("--discover=h=db1,p=secret", "--discover=h=db1,p=xxxxxx"),
            ("-P3306", "-P3306"),
            ("--port=3306", "--port=3306"),
            ("doctor", "doctor"),
            ("", ""),
        ] {
            assert_eq!(shown(given), expected, "{given}");
        }
    }

    #[test]
    fn blocks_are_searched_text_by_text() {
        let found = secrets_of_block(b"spindoctor\0-pab\0doctor\0--password=c\0", false);
        assert_eq!(found, [13..15, 34..35]);
        let found = secrets_of_block(b"A=-pno\0MYSQL_PWD=ab\0MYSQL_PWD2=no\0", true);
        assert_eq!((found.len(), found[0].clone()), (1, 17..19));
    }

    #[test]
    fn the_kernel_says_where_the_arguments_are() {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let (arguments, environment) = blocks(&stat).unwrap();
        let mut bytes = vec![0; usize::try_from(arguments.end - arguments.start).unwrap()];
        File::open("/proc/self/mem").unwrap().read_exact_at(&mut bytes, arguments.start).unwrap();
        assert_eq!(bytes, fs::read("/proc/self/cmdline").unwrap());
        assert!(environment.start >= arguments.end);
        assert_eq!(blocks("1 (x) S 1 2 3"), None);
    }
}
