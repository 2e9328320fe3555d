//! What a program printed, of which a page made a numbered list with other text around it: without the numbers.
//!
//! ```text
//!   1. top - 11:53:04 up 702 days, 56 min, 1 user, load average: 7.18, 6.70, 6.47
//!   2. Cpu(s): 7.7%us, 3.4%sy, 0.0%ni, 77.6%id, 11.0%wa, 0.0%hi, 0.3%si, 0.0%st
//! ```

use std::borrow::Cow;

use crate::rows::header_of;
use crate::stacks;
use crate::stretch::is_of_system;

/// Fewer lines may be steps that somebody wrote.
const FEW: usize = 3;

/// The text with the lines of such lists as they were printed.
pub(crate) fn without_numbers(text: &str) -> Cow<'_, str> {
    let lines: Vec<&str> = text.lines().collect();
    let mut plain: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let block = block(&lines[at..]);
        match block.len() {
            0 => {
                plain.push(lines[at]);
                at += 1;
            }
            taken => {
                plain.extend(block);
                at += taken;
            }
        }
    }
    if plain == lines {
        return Cow::Borrowed(text);
    }
    Cow::Owned(plain.into_iter().map(|line| format!("{line}\n")).collect())
}

/// The lines of the list that begins here, without their numbers; none where there is no such list.
fn block<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    let begins = lines.first().and_then(|line| numbered(line)).is_some_and(|(number, _)| number == 1);
    if !begins {
        return Vec::new();
    }
    let counted = (1..).zip(lines.iter().copied()).map_while(|(number, line)| {
        numbered(line).filter(|(found, _)| *found == number).map(|(_, rest)| rest)
    });
    let rest: Vec<&str> = counted.collect();
    let is_printed =
        |line: &&str| is_of_system(line) || header_of(line).is_some() || stacks::writer(line).is_some();
    if rest.len() >= FEW && rest.iter().any(is_printed) { rest } else { Vec::new() }
}

/// `  12. top - ...`: the number, and what stands behind it.
fn numbered(line: &str) -> Option<(usize, &str)> {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let number = line[..digits].parse().ok()?;
    line[digits..].strip_prefix(". ").map(|rest| (number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognise;

    #[test]
    fn a_list_of_what_a_tool_printed_is_read_within_other_text() {
        let text = "First we look at the processes:\n\n  1. [root@db1 ~]# top\n  \
                    2. top - 11:53:04 up 702 days, 56 min, 1 user, load average: 7.18, 6.70, 6.47\n  \
                    3. Cpu(s): 7.7%us, 3.4%sy, 0.0%ni, 77.6%id, 11.0%wa, 0.0%hi, 0.3%si, 0.0%st\n  \
                    4. PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND\n  \
                    5. 14165 mysql 20 0 8822m 3.1g 4672 S 162.3 6.6 89839:59 mysqld\n\nIt is clear that mysqld is busy.\n";
        let parts = recognise("x", text);
        let says = parts.iter().flat_map(|part| &part.says).cloned().collect::<Vec<_>>().join("; ");
        assert!(says.contains("The server uses 1.6 CPUs, and 77.6 % of the CPUs are idle"), "{says}");
    }

    #[test]
    fn steps_that_somebody_wrote_keep_their_numbers() {
        for text in [
            "1. we stop it\n2. we copy it\n3. we start it\n",
            "1. a\n3. top - 1\n4. b\n",
            "2. top - 1\n3. a\n4. b\n",
        ] {
            assert!(matches!(without_numbers(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
