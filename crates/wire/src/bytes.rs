//! Reads within bounds: every method is None where what it wants is not there.

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// All of it.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// True at the end.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that is left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// So many bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Two bytes, the lowest first.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Four bytes, the lowest first.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Up to the next zero, which is taken and left out.
    pub fn until_zero(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let text = self.take(end)?;
        self.u8()?;
        Some(text)
    }

    /// A number of one to nine bytes ("length-encoded integer"); `fb` and `ff` begin none.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let width = match self.u8()? {
            small @ 0..=0xfa => return Some(u64::from(small)),
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            _ => return None,
        };
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(self.take(width)?);
        Some(u64::from_le_bytes(wide))
    }

    /// A text with its length before it.
    #[inline]
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// A cell of a row: `fb` is NULL.
    #[inline]
    pub fn cell(&mut self) -> Option<Option<&'a [u8]>> {
        if self.0.first() == Some(&0xfb) {
            self.u8()?;
            return Some(None);
        }
        self.text().map(Some)
    }
}

/// Adds a number as [`Bytes::number`] reads it.
pub fn put_number(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=0xfa => out.push(number as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&number.to_le_bytes()[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&number.to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Adds a text as [`Bytes::text`] reads it.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_and_texts_come_back(number: u64, text in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut out = Vec::new();
            put_number(&mut out, number);
            put_text(&mut out, &text);
            let mut bytes = Bytes::new(&out);
            prop_assert_eq!(bytes.number(), Some(number));
            prop_assert_eq!(bytes.text(), Some(text.as_slice()));
            prop_assert!(bytes.is_empty());
        }

        #[test]
        fn anything_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut left = Bytes::new(&bytes);
            while left.cell().is_some() {}
            let _ = Bytes::new(&bytes).until_zero();
        }
    }

    #[test]
    fn null_is_no_text() {
        let mut bytes = Bytes::new(b"\xfb\x01a");
        assert_eq!(bytes.cell(), Some(None));
        assert_eq!(bytes.cell(), Some(Some(b"a".as_slice())));
        assert_eq!(bytes.cell(), None);
    }
}
