// Package page draws reports of package bench: as one HTML page that needs neither a network nor scripts to be read, and as
// SVG files for documents. Whatever a report contains is data: it is escaped, and the page forbids itself to load or run
// anything.
package page
