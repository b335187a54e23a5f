//! Nothing: a package of benches needs a library. They lie beside this file; `cargo bench --bench load` runs one of them.
