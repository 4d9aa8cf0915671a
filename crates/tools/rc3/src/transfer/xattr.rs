//! Extended attributes (xattr(7)) of Linux. On other systems files have none.

#[cfg(target_os = "linux")]
pub(super) use linux::{get, get_at, names, remove, set};
#[cfg(not(target_os = "linux"))]
pub(super) use none::{get, get_at, names, remove, set};

#[cfg(target_os = "linux")]
mod linux {
    use std::{fs::File, io, path::Path};

    use rustix::{
        fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr, getxattr, listxattr},
        io::{Errno, Result},
    };

    /// The names of the attributes of the file at `path`, each with a NUL behind it. `path` is followed.
    pub(in crate::transfer) fn names(path: &Path) -> io::Result<Option<Vec<u8>>> {
        whole(|names| listxattr(path, names))
    }

    /// The value of an attribute of the file at `path`; `None` if it has none of this name. `path` is followed.
    pub(in crate::transfer) fn get_at(path: &Path, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
        whole(|value| getxattr(path, name, value))
    }

    /// The same of an open file.
    pub(in crate::transfer) fn get(file: &File, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
        whole(|value| fgetxattr(file, name, value))
    }

    /// Sets an attribute.
    pub(in crate::transfer) fn set(file: &File, name: &[u8], value: &[u8]) -> io::Result<()> {
        Ok(fsetxattr(file, name, value, XattrFlags::empty())?)
    }

    /// Removes an attribute.
    pub(in crate::transfer) fn remove(file: &File, name: &[u8]) -> io::Result<()> {
        Ok(fremovexattr(file, name)?)
    }

    /// A list of names or a value, which `get` writes into a buffer; `None` if there is none.
    fn whole(get: impl Fn(&mut [u8]) -> Result<usize>) -> io::Result<Option<Vec<u8>>> {
        // Most files have few names or none. 512 bytes are enough for an ACL of 60 entries, 64 KiB for any list and value.
        let mut bytes = vec![0; 512];
        let length = get(&mut bytes).or_else(|error| match error {
            Errno::RANGE => {
                bytes.resize(64 << 10, 0);
                get(&mut bytes)
            }
            error => Err(error),
        });
        match length {
            Ok(length) => bytes.truncate(length),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        bytes.shrink_to_fit();
        Ok(Some(bytes))
    }
}

#[cfg(not(target_os = "linux"))]
mod none {
    use std::{fs::File, io, path::Path};

    pub(in crate::transfer) fn names(_: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    pub(in crate::transfer) fn get_at(_: &Path, _: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    pub(in crate::transfer) fn get(_: &File, _: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    pub(in crate::transfer) fn set(_: &File, _: &[u8], _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::transfer) fn remove(_: &File, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}
