/** Temml without what it also brings for chemistry and physics. */
declare module 'temml/temml.js' {
  import temml from 'temml';

  export default temml;
}
