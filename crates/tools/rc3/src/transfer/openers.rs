//! Which streams go first at normal priority.
//!
//! Low priority brings the bytes of many small files at once, but only the primary opens a stream at the receiver, and with
//! it all streams below. In the order of the files it would open the last ones a round trip after their bytes have arrived.
//! So now and then a small file goes first, which opens all before it.

/// Most files that wait for the next opener.
const FILES_MAX: u32 = 256;
/// Most bytes that wait for it: a tenth of a second at 100 Mbit/s.
const BYTES_MAX: u64 = 1 << 20;
/// Larger files are no openers: they would delay those before them.
const OPENER_BYTES_MAX: u64 = 64 << 10;

/// What was opened since the last opener.
#[derive(Debug, Default)]
pub(super) struct Openers {
    files: u32,
    bytes: u64,
}

impl Openers {
    /// The next stream has so many bytes; it is the `last` one for now if no other can be opened before the receiver answers.
    /// Returns its priority: earlier files come first, except openers, which share the first place with the control stream.
    pub(super) fn priority(&mut self, entry: u32, bytes: u64, last: bool) -> i32 {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let due = last || self.files >= FILES_MAX || self.bytes >= BYTES_MAX;
        if due && self.files > 1 && bytes <= OPENER_BYTES_MAX {
            *self = Self::default();
            return 0;
        }
        i32::try_from(entry).map_or(i32::MIN, |at| -1 - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these files are openers.
    fn openers(files: u32, bytes: u64) -> Vec<u32> {
        let mut openers = Openers::default();
        (0..files).filter(|&entry| openers.priority(entry, bytes, entry + 1 == files) == 0).collect()
    }

    #[test]
    fn the_last_small_file_and_some_before_it_open_the_others() {
        assert_eq!(openers(600, 4096), [255, 511, 599]);
        assert_eq!(openers(100, 32 << 10), [31, 63, 95, 99]);
        assert_eq!(openers(2, 0), [1]);
    }

    #[test]
    fn one_file_and_large_files_open_nothing() {
        assert_eq!(openers(1, 4096), [0; 0]);
        assert_eq!(openers(100, OPENER_BYTES_MAX + 1), [0; 0]);
        let mut openers = Openers::default();
        assert_eq!(openers.priority(0, 64 << 20, false), -1);
        assert_eq!(openers.priority(1, 100, false), 0);
        assert_eq!(openers.priority(2, 100, false), -3);
        assert_eq!(openers.priority(u32::MAX, 100, false), i32::MIN);
    }
}
