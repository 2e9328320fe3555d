//! The kernel's functions: by asking the kernel for each, or from `/proc/kallsyms` where it may not be asked.
//!
//! In: an address, or the list's text. Out: the name. The list has no sizes: a function ends where the next begins.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

use crate::capture::kernel_names::{KernelFunction, KernelNames};

/// Names the kernel's functions.
#[derive(Debug)]
pub(crate) enum KernelFunctions {
    /// The kernel is asked, once for each function: here by their ends.
    Asked(KernelNames, BTreeMap<u64, KernelFunction>),
    /// The list was read.
    Listed(Kernel),
}

impl KernelFunctions {
    /// Whatever can be used here.
    pub(crate) fn open() -> Self {
        match KernelNames::open() {
            Ok(names) => Self::Asked(names, BTreeMap::new()),
            Err(_) => Self::Listed(Kernel::read()),
        }
    }

    /// The function that holds an address.
    pub(crate) fn name(&mut self, address: u64) -> Option<&str> {
        if let Self::Asked(names, known) = self
            && !is_known(known, address)
        {
            match names.at(address) {
                Some(function) => {
                    known.insert(function.range.end, function);
                }
                // It has named nothing yet: it may be one that cannot.
                None if known.is_empty() => *self = Self::Listed(Kernel::read()),
                None => return None,
            }
        }
        match self {
            Self::Asked(_, known) => holding(known, address).map(|function| function.name.as_str()),
            Self::Listed(kernel) => kernel.name(address),
        }
    }

    /// Why there are no names.
    pub(crate) fn hidden(&self) -> Option<&str> {
        match self {
            Self::Asked(..) => None,
            Self::Listed(kernel) => kernel.hidden.as_deref(),
        }
    }
}

fn holding(known: &BTreeMap<u64, KernelFunction>, address: u64) -> Option<&KernelFunction> {
    let (_, function) = known.range(address.checked_add(1)?..).next()?;
    function.range.contains(&address).then_some(function)
}

fn is_known(known: &BTreeMap<u64, KernelFunction>, address: u64) -> bool {
    holding(known, address).is_some()
}

/// The kernel's functions, by address.
#[derive(Debug, Default)]
pub struct Kernel {
    functions: Vec<Function>,
    /// Name after name. 150,000 of them take 3 MB.
    names: Vec<u8>,
    /// Why there are none.
    hidden: Option<String>,
}

/// Where a function begins, and where in the names its own is.
#[derive(Debug)]
struct Function {
    address: u64,
    begin: u32,
    length: u16,
}

impl Kernel {
    /// Reads `/proc/kallsyms`.
    pub(crate) fn read() -> Self {
        let read = File::open("/proc/kallsyms")
            .and_then(|file| Self::parse(BufReader::with_capacity(1 << 16, file)));
        read.unwrap_or_else(|error| {
            let hidden = format!("kernel functions have no names: cannot read /proc/kallsyms: {error}");
            Self { hidden: Some(hidden), ..Self::default() }
        })
    }

    /// `ffffffff81234560 t native_queued_spin_lock_slowpath [module]`, a tab before the module
    ///
    /// # Errors
    /// It cannot be read.
    pub fn parse(mut text: impl BufRead) -> io::Result<Self> {
        let mut kernel = Self::default();
        let mut line = Vec::new();
        while text.read_until(b'\n', &mut line)? > 0 {
            let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
            if let (Some(address), Some(b"t" | b"T" | b"w" | b"W"), Some(name)) =
                (fields.next().and_then(hexadecimal), fields.next(), fields.next())
                && address != 0
                && let (Ok(begin), Ok(length)) = (kernel.names.len().try_into(), name.len().try_into())
            {
                kernel.functions.push(Function { address, begin, length });
                kernel.names.extend_from_slice(name);
            }
            line.clear();
        }
        // The first of several names for one address, as perf takes it.
        kernel.functions.sort_by_key(|function| function.address);
        kernel.functions.dedup_by_key(|function| function.address);
        if kernel.functions.is_empty() {
            kernel.hidden = Some(
                "kernel functions have no names: /proc/kallsyms shows zeroes; \
                 run as root, or set kernel.kptr_restrict to 0 or 1 and grant CAP_SYSLOG"
                    .to_owned(),
            );
        }
        Ok(kernel)
    }

    /// The function that holds an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let place = self.functions.partition_point(|function| function.address <= address).checked_sub(1)?;
        let Function { begin, length, .. } = self.functions[place];
        let begin = begin as usize;
        std::str::from_utf8(self.names.get(begin..begin + usize::from(length))?).ok()
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    const MOST_DIGITS: usize = 16;
    if digits.is_empty() || digits.len() > MOST_DIGITS {
        return None;
    }
    digits.iter().try_fold(0, |number, &digit| Some(number << 4 | u64::from(char::from(digit).to_digit(16)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_holds_addresses_up_to_the_next() {
        let kernel = Kernel::parse(
            "ffffffff81000000 T _stext\nffffffff81000040 t futex_wait\nffffffff81000040 t alias\n\
             ffffffff81000080 D data\nffffffffc0000000 t ext4_sync\t[ext4]\n"
                .as_bytes(),
        )
        .unwrap();
        assert_eq!(kernel.name(0xffff_ffff_8100_003f), Some("_stext"));
        assert_eq!(kernel.name(0xffff_ffff_8100_0090), Some("futex_wait"));
        assert_eq!(kernel.name(0xffff_ffff_c000_0001), Some("ext4_sync"));
        assert_eq!(kernel.name(0x1000), None);
        assert_eq!(kernel.hidden, None);
    }

    #[test]
    fn zeroes_say_what_would_unlock_the_names() {
        let kernel =
            Kernel::parse("0000000000000000 T _stext\n0000000000000000 t futex_wait\n".as_bytes()).unwrap();
        assert!(
            kernel.hidden.as_ref().is_some_and(|why| why.contains("kptr_restrict")),
            "{:?}",
            kernel.hidden
        );
        assert_eq!(kernel.name(0xffff_ffff_8100_0000), None);
    }

    #[test]
    fn the_kernel_names_its_functions_as_its_list_does() {
        let list = Kernel::read();
        let mut asked = KernelFunctions::open();
        if list.hidden.is_some() || matches!(asked, KernelFunctions::Listed(_)) {
            println!("the kernel may not be asked here, or hides its list: nothing is compared");
            return;
        }
        // Of a module and of the kernel itself, at the beginning, within, and at the last byte.
        let (mut compared, step) = (0, list.functions.len() / 1000 + 1);
        for pair in list.functions.windows(2).step_by(step) {
            let (start, end) = (pair[0].address, pair[1].address);
            for address in [start, start + (end - start) / 2, end - 1] {
                // Between the last function of a region and the first of the next there is none.
                if end - start < 1 << 20 {
                    assert_eq!(asked.name(address), list.name(address), "{address:x}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 1000, "{compared}");
        assert_eq!(asked.hidden(), None);
        assert_eq!(asked.name(0x1000), None);
    }

    #[test]
    fn a_function_that_the_kernel_named_is_asked_for_once() {
        let function = |name: &str, range| KernelFunction { name: name.to_owned(), range };
        let known = [function("read", 0x1000..0x1040), function("write", 0x1080..0x10a0)];
        let known: BTreeMap<u64, KernelFunction> =
            known.into_iter().map(|function| (function.range.end, function)).collect();
        let name = |address| holding(&known, address).map(|function| function.name.as_str());
        assert_eq!(name(0x1000), Some("read"));
        assert_eq!(name(0x103f), Some("read"));
        assert_eq!([name(0xfff), name(0x1040), name(0x107f), name(0x10a0), name(u64::MAX)], [None; 5]);
        assert_eq!(name(0x1080), Some("write"));
    }
}
