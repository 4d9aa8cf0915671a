//! A ticket in a file, for scripts and for users who do not want it on a screen.
//!
//! Invariant: only its owner can read the file from the first byte on, and the file appears complete.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
};

use super::{paths::directory_of, ticket::Ticket};

/// Longer than any ticket.
const LINE_BYTES_MAX: u64 = 1024;

/// The file of a valid ticket; removed on drop.
#[derive(Debug)]
pub struct TicketFile {
    path: PathBuf,
    line: String,
}

impl TicketFile {
    /// Writes the ticket with mode 0600. An entry at `path`, such as a link, is replaced.
    ///
    /// # Errors
    /// When a system call fails.
    pub fn write(path: &Path, ticket: &Ticket) -> io::Result<Self> {
        let mut file = tempfile::Builder::new().prefix(".rc3-ticket-").tempfile_in(directory_of(path))?;
        let line = format!("{ticket}\n");
        file.write_all(line.as_bytes())?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(Self { path: path.to_owned(), line })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TicketFile {
    fn drop(&mut self) {
        // Another receiver may have replaced it by its own.
        if fs::read_to_string(&self.path).is_ok_and(|line| line == self.line) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The first line of a file, which should be a ticket.
///
/// # Errors
/// When it cannot be read, or is not text.
pub fn read(path: &Path) -> io::Result<String> {
    first_line(File::open(path)?)
}

/// The first line of a reader, up to the longest ticket.
///
/// # Errors
/// When it cannot be read, or is not text.
pub fn first_line(from: impl Read) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(from.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::{
        super::ticket::{Fingerprint, Secret},
        *,
    };

    fn ticket(secret: u8) -> Ticket {
        Ticket::new("192.0.2.1", 4433, Fingerprint([7; 32]), Secret([secret; 16])).unwrap()
    }

    #[test]
    fn a_ticket_is_read_back_until_its_receiver_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ticket");
        fs::write(&path, b"old").unwrap();
        let first = TicketFile::write(&path, &ticket(1)).unwrap();
        assert_eq!(read(&path).unwrap().parse(), Ok(ticket(1)));
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        let second = TicketFile::write(&path, &ticket(2)).unwrap();
        drop(first);
        assert_eq!(read(&path).unwrap().parse(), Ok(ticket(2)));
        drop(second);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn endless_files_are_not_read_to_their_end() {
        assert_eq!(first_line(io::repeat(b'a')).unwrap().len() as u64, LINE_BYTES_MAX);
    }
}
