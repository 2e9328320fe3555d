//! `/proc/PID/maps`, parsed.

/// A mapping that a process may run code from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Device and inode, as the kernel prints the device: `fe:00`.
    pub file: (String, u64),
    /// As the process names the file; empty for memory without a file; `[vdso]`. ` (deleted)` is still there.
    pub path: String,
}

/// The executable mappings, in order. What is not a line of maps is left out.
pub fn parse_maps(text: &str) -> Vec<Map> {
    text.lines().filter_map(parse_line).collect()
}

/// `7f1c2a028000-7f1c2a1bd000 r-xp 00028000 fe:00 1838203     /usr/lib/x86_64-linux-gnu/libc.so.6` (Linux 6.18)
fn parse_line(line: &str) -> Option<Map> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    if permissions.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let offset = fields.next()?;
    let device = fields.next()?;
    let inode = fields.next()?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let map = Map {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        offset: hexadecimal(offset)?,
        file: (device.to_owned(), inode.parse().ok()?),
        // The kernel writes a newline in a name as \012.
        path: fields.next().unwrap_or_default().trim_start().replace("\\012", "\n"),
    };
    (map.start < map.end).then_some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_mappings_are_kept_and_names_may_have_spaces() {
        let text = "\
55d0e0a00000-55d0e0dd9000 r--p 00000000 fe:00 1234                       /usr/sbin/mysqld
55d0e0dd9000-55d0e317e000 r-xp 00dd9000 fe:00 1234                       /opt/my sql/mysqld (deleted)
7f0000000000-7f0000001000 rwxp 00000000 00:00 0 
7ffd5c9fe000-7ffd5ca00000 r-xp 00000000 00:00 0                          [vdso]
nonsense
";
        let maps = parse_maps(text);
        let paths: Vec<&str> = maps.iter().map(|map| map.path.as_str()).collect();
        assert_eq!(paths, ["/opt/my sql/mysqld (deleted)", "", "[vdso]"]);
        assert_eq!(maps[0].offset, 0xdd_9000);
        assert_eq!(maps[0].file, ("fe:00".to_owned(), 1234));
    }

    #[test]
    fn a_mapping_that_ends_before_it_begins_is_no_mapping() {
        assert_eq!(parse_maps("2000-1000 r-xp 0 00:00 0 "), []);
    }
}
