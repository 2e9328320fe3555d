//! A command's list of formats: the one place that its flags, its help, its messages and its output follow.

/// A way to write something; `R` is the function that does it.
#[derive(Debug)]
pub struct Format<R> {
    /// What `--format` calls it.
    pub name: &'static str,
    /// What it is for, in one line.
    pub help: &'static str,
    /// How the name of such a file ends.
    pub extension: &'static str,
    /// True where it is no text: never sent to a terminal.
    pub binary: bool,
    /// Writes it.
    pub render: R,
}

/// The format of this name.
pub fn by_name<R>(formats: &'static [Format<R>], name: &str) -> Option<&'static Format<R>> {
    formats.iter().find(|format| format.name == name)
}

/// The format that a file's name ends in; the longest ending that fits decides.
pub fn by_extension<R>(formats: &'static [Format<R>], file: &str) -> Option<&'static Format<R>> {
    let fits =
        |format: &&Format<R>| file.strip_suffix(format.extension).is_some_and(|stem| stem.ends_with('.'));
    formats.iter().filter(fits).max_by_key(|format| format.extension.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: &[Format<()>] = &[
        Format { name: "text", help: "", extension: "txt", binary: false, render: () },
        Format { name: "json", help: "", extension: "json", binary: false, render: () },
        Format { name: "firefox", help: "", extension: "firefox.json", binary: false, render: () },
    ];

    #[test]
    fn a_format_is_found_by_its_name_and_by_the_end_of_a_files_name() {
        let by_file = |file| by_extension(FORMATS, file).map(|format| format.name);
        assert_eq!(by_name(FORMATS, "json").map(|format| format.extension), Some("json"));
        assert!(by_name(FORMATS, "txt").is_none());
        assert_eq!(by_file("a.txt"), Some("text"));
        assert_eq!(by_file("a.json"), Some("json"));
        assert_eq!(by_file("a.firefox.json"), Some("firefox"));
        assert_eq!((by_file("json"), by_file("a.tar")), (None, None));
    }
}
