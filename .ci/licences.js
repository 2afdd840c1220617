// Licences that a package may have so that dms can be used, changed and distributed under Apache-2.0.

const licences = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'LGPL-3.0-or-later', // libvips, a shared library that sharp loads; libheif and libde265 in the module of magick-wasm
  'MIT',
  'MIT-0',
  'MPL-2.0',
  'Unlicense',
])

/** Packages whose package.json has no SPDX expression, read from their licence files. */
const licensedInFile = { busboy: 'MIT', streamsearch: 'MIT' }

/** Returns the SPDX expression of a package; undefined if it is unknown. */
export const licenceOf = (name, stated) => stated ?? licensedInFile[name]

/** Returns whether an SPDX expression permits one of our licences: one alternative of OR, all parts of AND. */
export const isAllowed = (expression = '') =>
  expression
    .replace(/[()]/g, '')
    .split(' OR ')
    .some((all) => all.split(' AND ').every((licence) => licences.has(licence)))

/** Returns the name of a package from its path in package-lock.json. */
export const nameOf = (place) => place.split('node_modules/').at(-1)
