//! Lists of disks as `iostat -x` prints them, without the column of their names, or with names in it and none above them: who has one disk
//! leaves its name out.
//!
//! ```text
//! r/s  w/s     rsec/s  wsec/s     avgqu-sz  await   svctm  %util
//! 0.00 451.00  0.00    206248.00  123.25    238.00  1.90   85.90
//! ```

/// What stands for the name.
pub(crate) const NAMELESS: &str = "(unnamed)";

/// The longest line that is looked at, bytes.
const LONGEST: usize = 1_000;

/// The lines of a text, with the names that such lists have not.
pub(crate) fn with_names(lines: Vec<String>) -> Vec<String> {
    if !lines.iter().any(|line| is_head(line)) {
        return lines;
    }
    let mut columns = 0;
    let with_name = |line: String| {
        let count = line.split_whitespace().count();
        if is_head(&line) {
            columns = count;
            format!("Device: {}", line.trim())
        } else if columns > 0 && count == columns && line.split_whitespace().all(is_number) {
            format!("{NAMELESS} {}", line.trim())
        } else {
            // The rows end with the first line of words.
            let is_row = count == columns + 1 && line.split_whitespace().skip(1).all(is_number);
            if !is_row && line.contains(char::is_alphabetic) {
                columns = 0;
            }
            line
        }
    };
    lines.into_iter().map(with_name).collect()
}

/// True for the names of the columns, where that of the disk is not among them.
fn is_head(line: &str) -> bool {
    if line.len() > LONGEST || !line.contains("%util") {
        return false;
    }
    let has = |name: &str| line.split_whitespace().any(|word| word == name);
    let is_first = line.split_whitespace().next().is_some_and(|word| word.ends_with("/s"));
    is_first && has("r/s") && has("w/s") && has("%util")
}

fn is_number(word: &str) -> bool {
    word.replace(',', ".").parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    fn says(text: &str) -> Vec<String> {
        crate::recognise("x", text).into_iter().flat_map(|part| part.says).collect()
    }

    const HEAD: &str = "    r/s w/s rsec/s wsec/s avgqu-sz await svctm %util\n";

    #[test]
    fn a_disk_without_a_name_is_a_disk() {
        let text = format!(
            "This is what the disk does:\n{HEAD}    0.00 521.00 0.00 186024.00 131.20 212.00 1.90 98.00\n    \
             0.00 479.00 0.00 174012.00 128.80 228.00 2.10 100.00\nIt is slow. Of 3 disks it is one.\n"
        );
        assert_eq!(says(&text), ["A disk is 99 % busy: 500 writes a second take 220 ms each"]);
        let commas = text.replace('.', ",");
        assert_eq!(says(&commas), ["A disk is 99 % busy: 500 writes a second take 220 ms each"]);
    }

    #[test]
    fn names_without_one_above_them_are_those_of_disks() {
        let text = format!(
            "{HEAD}sda 0.00 521.00 0.00 186024.00 131.20 212.00 1.90 98.00\nsdb 0.00 1.00 0.00 8.00 0.00 1.00 0.10 0.10\n"
        );
        assert_eq!(says(&text), ["The disk sda is 98 % busy: 521 writes a second take 212 ms each"]);
    }

    #[test]
    fn what_has_names_stays_as_it_is() {
        for text in ["Device: r/s w/s %util\nsda 1.00 2.00 3.00\n", "We had r/s and w/s and %util of 90\n"] {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(super::with_names(lines.clone()), lines);
        }
    }
}
