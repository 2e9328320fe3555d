//! Whole numbers in as few bytes as they need: seven bits per byte, the lowest first.

use super::Undecodable;

/// Appends a number.
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends a text or bytes, its length first.
pub(crate) fn put_bytes(bytes: &mut Vec<u8>, content: &[u8]) {
    put(bytes, content.len() as u128);
    bytes.extend_from_slice(content);
}

/// Numbers near zero become small ones, whatever their sign.
pub(crate) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// The number again.
pub(crate) fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Bytes that are read from the front.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next number.
    pub(crate) fn number(&mut self) -> Result<u128, Undecodable> {
        let mut number = 0_u128;
        for shift in (0..126).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or_else(|| Undecodable::new("it ends too early"))?;
            self.0 = rest;
            number |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Undecodable::new("a number in it has no end"))
    }

    /// The next number, where it must be one of 64 bits.
    pub(crate) fn u64(&mut self) -> Result<u64, Undecodable> {
        u64::try_from(self.number()?).map_err(|_| Undecodable::new("a number in it is too large"))
    }

    /// The next number, where it counts or names something.
    pub(crate) fn count(&mut self) -> Result<usize, Undecodable> {
        usize::try_from(self.number()?).map_err(|_| Undecodable::new("a number in it is too large"))
    }

    /// The next so many bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Undecodable> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or_else(|| Undecodable::new("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Bytes that have their length before them.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Undecodable> {
        let length = self.count()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn numbers_come_back(number: u128, signed: i64) {
            let number = number >> 2;
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            proptest::prop_assert_eq!(Bytes(&bytes).number(), Ok(number));
            proptest::prop_assert_eq!(unzigzag(zigzag(signed)), signed);
        }
    }
}
