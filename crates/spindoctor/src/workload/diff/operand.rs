//! One side of a comparison, as it is written: a file, or a part of a recording.

use std::path::PathBuf;
use std::str::FromStr;

use crate::common::moment::Moment;

/// `FILE`, or `FILE@FROM..TO`, either end of which may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operand {
    /// The file.
    pub file: PathBuf,
    /// The beginning; none is the recording's.
    pub from: Option<Moment>,
    /// The end; none is the recording's.
    pub to: Option<Moment>,
}

impl Operand {
    /// True where a part was asked for, which only a recording has.
    pub fn is_part(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }
}

impl FromStr for Operand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let whole = |file: &str| match file {
            "" => Err("write a file's name, or FILE@FROM..TO".to_owned()),
            file => Ok(Self { file: file.into(), from: None, to: None }),
        };
        // A file may have an @ in its name: only what looks like two times is a part.
        let Some((file, (from, to))) =
            text.rsplit_once('@').and_then(|(file, part)| Some((file, part.split_once("..")?)))
        else {
            return whole(text);
        };
        let end = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse().map(Some),
        };
        Ok(Self { from: end(from)?, to: end(to)?, ..whole(file)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_recording_is_written_behind_its_name() {
        let parse = |text: &str| text.parse::<Operand>();
        let part = parse("db1.rec@09:00..09:10").unwrap();
        assert_eq!(
            (part.file, part.from, part.to),
            ("db1.rec".into(), "09:00".parse().ok(), "09:10".parse().ok())
        );
        let part = parse("a@b.rec@-20m..-10m").unwrap();
        assert_eq!((part.file, part.from), ("a@b.rec".into(), "-20m".parse().ok()));
        let part = parse("db1.rec@..09:10").unwrap();
        assert!(part.from.is_none() && part.to.is_some() && part.is_part());
        for name in ["db1.rec", "a@b.rec", "x@y", "../a.rec"] {
            assert_eq!(parse(name).unwrap(), Operand { file: name.into(), from: None, to: None });
        }
        assert!(parse("db1.rec@soon..later").unwrap_err().contains("09:30"));
        assert!(parse("").is_err() && parse("@09:00..09:10").is_err());
    }
}
