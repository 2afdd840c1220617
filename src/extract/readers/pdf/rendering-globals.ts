/**
 * Declares the browser classes that PDF.js looks for when it is imported, and warns about when they are missing. Text extraction never uses them:
 * PDFium renders the pages. Import this file before PDF.js.
 */
class Unused {}

Object.assign(globalThis, { DOMMatrix: Unused, Path2D: Unused })
