/** Types of Temml without its chemistry and physics. */
declare module 'temml/temml.js' {
  import temml from 'temml';

  export default temml;
}
