//! Where gdb connects: a TCP address, on the loopback device unless the user says otherwise, or a unix socket.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use crate::error::GdbError;
use crate::wire::Stream;

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// A socket that waits for gdb. A unix socket's file is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: String,
    warning: Option<String>,
}

impl Listener {
    /// Listens on `HOST:PORT`, `:PORT` or `PORT` (both on 127.0.0.1), or on a socket's path, which has a `/` in it or begins with
    /// `unix:`. Port 0 is any free port: [`Listener::address`] tells which.
    ///
    /// # Errors
    /// No address; in use; or something else is at the path.
    pub fn bind(address: &str) -> Result<Listener, GdbError> {
        if let Some(path) = address.strip_prefix("unix:") {
            return unix(Path::new(path));
        }
        if address.contains('/') {
            return unix(Path::new(address));
        }
        let wrong = || GdbError::Address {
            address: address.to_owned(),
        };
        let full = match address.rsplit_once(':') {
            Some(("", port)) => format!("127.0.0.1:{port}"),
            Some(_) => address.to_owned(),
            None => format!("127.0.0.1:{address}"),
        };
        let found: Vec<SocketAddr> = full.to_socket_addrs().map_err(|_| wrong())?.collect();
        let target = *found.first().ok_or_else(wrong)?;
        let failed = |source| GdbError::Listen {
            address: full.clone(),
            source,
        };
        let listener = TcpListener::bind(target).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let warning = (!is_loopback(local.ip())).then(|| {
            format!(
                "anyone who can reach {local} can now read and change the guest; gdb's protocol has no password. \
                 127.0.0.1 or a unix socket keeps others out"
            )
        });
        Ok(Listener {
            socket: Socket::Tcp(listener),
            address: local.to_string(),
            warning,
        })
    }

    /// What to give to gdb's `target remote`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The unix socket's file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.socket {
            Socket::Tcp(_) => None,
            Socket::Unix(_, path) => Some(path),
        }
    }

    /// What the user should know about this address.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// A connection, if one waits.
    pub(crate) fn accept(&self) -> Option<Stream> {
        // Errors here are the connection's (it was given up before it was taken), never the listener's.
        let stream = match &self.socket {
            Socket::Tcp(listener) => Stream::Tcp(listener.accept().ok()?.0),
            Socket::Unix(listener, _) => Stream::Unix(listener.accept().ok()?.0),
        };
        stream.prepare().ok()?;
        Some(stream)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            // Whoever removed it before has done it.
            let _ = fs::remove_file(path);
        }
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.is_loopback()
}

fn unix(path: &Path) -> Result<Listener, GdbError> {
    let address = path.display().to_string();
    let failed = |source| GdbError::Listen {
        address: address.clone(),
        source,
    };
    clear(path)?;
    // Nobody else may connect, from the first moment on.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(Listener {
        socket: Socket::Unix(listener, path.to_owned()),
        address,
        warning: None,
    })
}

/// Removes a socket that nobody listens on; anything else stays.
fn clear(path: &Path) -> Result<(), GdbError> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    let occupied = || GdbError::Occupied {
        path: path.to_owned(),
    };
    if !metadata.file_type().is_socket() {
        return Err(occupied());
    }
    match UnixStream::connect(path) {
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(|_| occupied()),
        _ => Err(occupied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tcp_addresses_are_loopback_unless_said_otherwise() {
        for address in ["0", ":0", "127.0.0.1:0", "localhost:0"] {
            let listener = Listener::bind(address).unwrap();
            assert!(listener.warning().is_none(), "{address}");
            assert!(!listener.address().ends_with(":0"));
        }
        assert!(Listener::bind("0.0.0.0:0").unwrap().warning().is_some());
        for address in ["", "x", "127.0.0.1:", "127.0.0.1:70000", "1.2.3.4.5:0"] {
            assert!(
                matches!(Listener::bind(address), Err(GdbError::Address { .. })),
                "{address}"
            );
        }
        let taken = Listener::bind("0").unwrap();
        assert!(matches!(
            Listener::bind(taken.address()),
            Err(GdbError::Listen { .. })
        ));
    }

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gdb");
        let name = path.to_str().unwrap();
        fs::write(&path, "keep").unwrap();
        assert!(matches!(Listener::bind(name), Err(GdbError::Occupied { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"keep");
        fs::remove_file(&path).unwrap();

        let listener = Listener::bind(name).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(Listener::bind(name), Err(GdbError::Occupied { .. })));
        drop(listener);
        assert!(!path.exists());

        // A server that was killed leaves its socket behind.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        Listener::bind(name).unwrap();
    }
}
