//! Lists of disks that a narrow page parted in two, the left columns above the right ones: whole again.
//!
//! ```text
//! Device: rrqm/s wrqm/s r/s w/s rMB/s
//! sda 0.00 0.20 1.00 163.40 0.00
//! wMB/s avgrq-sz avgqu-sz await svctm %util
//! 81.09 1010.19 142.74 866.47 6.08 100.00
//! ```

/// Disks of one report that are looked at.
const MOST_ROWS: usize = 200;

/// The lines of a text, with such lists as `iostat -x` prints them.
pub(crate) fn whole(lines: Vec<String>) -> Vec<String> {
    if !lines.iter().any(|line| is_left(line)) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        match list(&lines[at..]) {
            Some(list) => {
                at += 2 * list.len();
                all.extend(list);
            }
            None => {
                all.push(line.clone());
                at += 1;
            }
        }
    }
    all
}

fn words(line: &str) -> usize {
    line.split_whitespace().count()
}

/// True for the left part of the names of its columns.
fn is_left(line: &str) -> bool {
    line.trim_start().starts_with("Device") && line.contains("r/s") && !line.contains("%util")
}

/// The list whose left part begins in the first of these lines: its names, and its rows.
fn list(lines: &[String]) -> Option<Vec<String>> {
    let left = lines.first().filter(|line| is_left(line))?;
    let is_row = |line: &&String, names: &str| {
        words(line) == words(names) && line.contains(|c: char| c.is_ascii_digit()) && !line.contains('%')
    };
    let rows = lines[1..].iter().take(MOST_ROWS).take_while(|line| is_row(line, left)).count();
    let is_right = |line: &&String| line.trim_end().ends_with("%util") && !line.contains("Device");
    let right = lines.get(1 + rows).filter(is_right)?;
    let values = lines.get(2 + rows..2 + 2 * rows)?;
    let is_list = rows > 0 && values.iter().all(|line| is_row(&line, right));
    let joined = |(one, other): (&String, &String)| format!("{one} {other}");
    is_list.then(|| lines[..=rows].iter().zip(&lines[1 + rows..]).map(joined).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_halves_of_a_list_of_disks_are_one_again() {
        let text = "% iostat -xm 5\nDevice: rrqm/s wrqm/s r/s w/s rMB/s\nsda 0.00 0.20 1.00 163.40 0.00\nsdb 0.00 0.00 0.00 1.00 0.00\n\
                    wMB/s avgrq-sz avgqu-sz await svctm %util\n81.09 1010.19 142.74 866.47 6.08 100.00\n0.01 8.00 0.00 0.10 0.10 0.20\nAnd so on\n";
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let whole = whole(lines);
        assert_eq!(
            whole[1..],
            [
                "Device: rrqm/s wrqm/s r/s w/s rMB/s wMB/s avgrq-sz avgqu-sz await svctm %util",
                "sda 0.00 0.20 1.00 163.40 0.00 81.09 1010.19 142.74 866.47 6.08 100.00",
                "sdb 0.00 0.00 0.00 1.00 0.00 0.01 8.00 0.00 0.10 0.10 0.20",
                "And so on"
            ]
        );
        let says: Vec<String> = crate::recognise("x", text).into_iter().flat_map(|part| part.says).collect();
        assert_eq!(says, ["The disk sda is 100 % busy: 163 writes a second take 866 ms each"]);
    }

    #[test]
    fn what_has_no_right_part_stays_as_it_is() {
        for text in [
            "Device: r/s w/s\nsda 1.00 2.00\n",
            "Device: r/s w/s\nsda 1.00 2.00\nawait %util\n",
            "Device: r/s w/s\nawait %util\n",
            "Device: r/s w/s\nsda 1.00 2.00\nawait %util\n1.00\n",
        ] {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(whole(lines.clone()), lines);
        }
    }
}
